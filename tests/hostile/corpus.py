"""The hostile corpus: each case has a name, what it is, and words of the error that refuses it.

CANARY in a payload is replaced by a path: code that ran would make a file there.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

RUN = "__import__('os').system('touch CANARY')"


@dataclass(frozen=True)
class Case:
    """A hostile text or file, and words that the message of its refusal has."""

    name: str
    content: Any
    words: str

    def __str__(self) -> str:
        return self.name


NODE, CHARACTER = "is not allowed", "is not allowed"
EXPRESSIONS = (
    Case("a call of import", RUN, NODE),
    Case("dunder access", "x.__class__.__mro__", "(Attribute)"),
    Case("dunder access of a number", "(1).__class__.__bases__", "(Attribute)"),
    Case("dunder access of a function", "log.__globals__", "(Attribute)"),
    Case("eval", "eval(x)", "is not a known function"),
    Case("exec", "exec(x)", "is not a known function"),
    Case("open", "open(x)", "is not a known function"),
    Case("getattr", "getattr(x, y)", "is not a known function"),
    Case("a lambda", "(lambda x - x)(x)", "Expression refused"),
    Case("a generator", "log(x for x in y)", "(GeneratorExp)"),
    Case("a walrus", "(x := 1)", NODE),
    Case("a formatted text", "f'{x.__class__}'", CHARACTER),
    Case("text", '"x"', CHARACTER),
    Case("a subscript", "x[0]", NODE),
    Case("a starred operand", "log(*x)", "named or starred"),
    Case("a named operand", "min(x, y, out=x)", "named or starred"),
    Case("a tower of powers", "9**9**9", "not a finite number"),
    Case("a tower of five powers", "9**9**9**9**9", "not a finite number"),
    Case("a tower of powers beside a column", "x + 9**9**9", "not a finite number"),
    Case("a number of 400 digits", "x + " + "9" * 400, "is larger than"),
    Case("a number beyond floats", "x + 1e999", "is larger than"),
    Case("a number stuck to a word", "1if x else 2", "is not a number"),
    Case("a hexadecimal number stuck to a word", "0x1For x", "is not a number"),
    Case(
        "brackets 500 deep",
        "(" * 400 + "x" + ")" * 400,
        "makes no complete formula (too many nested",
    ),
    Case("calls 150 deep", "log(" * 150 + "x" + ")" * 150, "Expression refused"),
    Case("signs 900 deep", "-" * 900 + "x", "Expression refused"),
    Case("300 operands", "min(" + "x," * 300 + "x)", "parts; at most 200"),
    Case("a name of 2,000 characters", "x" * 2_000, "has 2000 characters"),
    Case("100,000 brackets", "(" * 100_000, "has 100000 characters"),
    Case("full-width letters", "ｅｖａｌ + 1", "would be read as 'eval'"),
    Case("a full-width function", "ｌｏｇ(x)", "is not a known function"),
    Case("mathematical letters", "𝐱 + 1", "would be read as 'x'"),
    Case("a mark of direction", "x\u200f + 1", CHARACTER),
    Case("a space without width", "x\u200b + 1", CHARACTER),
    Case("two statements", "x; import os", CHARACTER),
    Case("an import", "import os", "Expression refused"),
    Case("a comment", "x # comment", CHARACTER),
    Case("back-quotes without end", "x + `y", "close the back-quotes"),
)

ANCHORS = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nknowledge: *c\n"
KNOWLEDGE = (
    Case(
        "a tag of Python", "knowledge: [!!python/object/apply:os.system ['touch CANARY']]", "tags"
    ),
    Case("a tag of a module", "knowledge: !!python/module:os", "tags (!) are not read"),
    Case("a tag of a name", "knowledge: [{at_least: !!python/name:os.system }]", "tags"),
    Case("a tag of its own", "knowledge: [{at_least: !run 'touch CANARY'}]", "tags"),
    Case("bytes", "knowledge: [{name: !!binary aGk=, at_least: 0}]", "tags"),
    Case("anchors that grow", ANCHORS, "anchors (&) and aliases (*)"),
    Case("an anchor in itself", "knowledge: &a [*a]", "anchors (&) and aliases (*)"),
    Case("a merge key", "knowledge: [{<<: {at_least: 0}, name: a}]", "does not say"),
    Case("a key twice", "knowledge: [{at_least: 0, at_least: 1}]", "written twice"),
    Case("two kinds", "knowledge: [{at_least: 0, at_most: 1}]", "says at_least and at_most"),
    Case(
        "a name twice", "knowledge: [{name: a, at_least: 0}, {name: a, at_most: 1}]", "too; rename"
    ),
    Case("lists 500 deep", "knowledge: " + "[" * 500 + "]" * 500, "nested more than 30 deep"),
    Case("mappings 500 deep", "knowledge: " + "{a: " * 500 + "}" * 500, "nested more than 30 deep"),
    Case("parts 100 deep", "knowledge: [" + "{combined: [" * 100 + "]}" * 100 + "]", "nested more"),
    Case("200,001 bytes", "#" * 200_001, "more than 200,000 bytes"),
    Case("6 MB", "knowledge:\n" + "  - {at_least: 0}\n" * 300_000, "more than 200,000 bytes"),
    Case("a word of 190,000 letters", "knowledge: " + "a" * 190_000, "needs a list"),
    Case(
        "a key of 100,000 letters",
        "knowledge: [{at_least: 0, ? " + "a" * 100_000 + " : 1}]",
        "is not",
    ),
    Case("a name of 100,000 letters", "knowledge: [{name: " + "a" * 100_000 + "}]", "does not say"),
    Case("5,000 mistakes", "knowledge:\n" + "  - {at_leat: 0}\n" * 5_000, "more mistakes"),
    Case("a number of 400 digits", f"knowledge: [{{at_least: {'9' * 400}}}]", "400 characters"),
    Case(
        "a number of 5,000 digits",
        f"knowledge: [{{falls: x, lag: {'9' * 5000}}}]",
        "5000 characters",
    ),
    Case("infinity", "knowledge: [{at_least: 1e999}]", "needs a number"),
    Case("NaN", "knowledge: [{at_least: 0, margin: .nan}]", "needs a number"),
    Case(
        "an escape beyond characters",
        'knowledge: [{name: "\\U00110000", at_least: 0}]',
        "cannot be",
    ),
    Case(
        "an escape of half a character",
        'knowledge: [{name: "\\ud800", at_least: 0}]',
        "half a char",
    ),
    Case("a half character in a key", 'knowledge: [{"\\udfff": 0}]', "half a character"),
    Case(
        "a version of 4,400 digits", f"%YAML {'9' * 4400}.1\n---\nknowledge: []", "cannot be read"
    ),
    Case("a newer version of YAML", "%YAML 9.1\n---\nknowledge: []", "cannot be read as YAML"),
    Case("two documents", "knowledge: []\n---\nknowledge: []", "a second document"),
    Case("NUL", "knowledge: [\0]", "special characters are not allowed"),
    Case("an escape sequence", "knowledge: [\x1b[2J]", "special characters are not allowed"),
    Case("bytes that are no text", b"knowledge: [{name: \xff\xfe, at_least: 0}]", "is not UTF-8"),
    Case("UTF-16", "knowledge: []".encode("utf-16"), "is not UTF-8"),
    Case("a list for a key", "knowledge: [{? [a] : 1}]", "a key must be a word"),
    Case("a column that is not there", "knowledge: [{at_least: nothing}]", "nothing"),
    Case("code for a column", "knowledge: [{increasing: x.__class__}]", "x.__class__"),
)

ROWS = "1,2\n3,4\n5,6\n"
TABLES = (
    Case("nothing", b"", "is empty"),
    Case("a byte order mark alone", b"\xef\xbb\xbf", "is empty"),
    Case("line ends alone", b"\n" * 10_000, "is empty"),
    Case("NUL", b"x,y\n\0,1\n", "is not text"),
    Case("NUL behind the first MiB", b"x,y\n" + b"1,2\n" * 300_000 + b"3\x004,5\n", "is not text"),
    Case("UTF-16", "x,y\n1,2\n".encode("utf-16"), "is not text"),
    Case("a workbook", b"PK\x03\x04\0\0", "is not text"),
    Case("neither UTF-8 nor Windows text", b"x,y\n\x81\x8d,1\n", "neither UTF-8 nor Windows"),
    Case(
        "two encodings",
        b"x,y\n" + b"1,2\n" * 300_000 + "é,2\n".encode("cp1252"),
        "cannot be read as",
    ),
    Case(
        "a cell of 200,000 characters",
        "x,y\n" + "a" * 200_000 + ",1\n" + ROWS,
        "131,072 characters",
    ),
    Case(
        "a number of 200,000 digits", "x,y\n" + "1" * 200_000 + ",1\n" + ROWS, "131,072 characters"
    ),
    Case("a name of 200,000 characters", "x" * 200_000 + ",y\n" + ROWS, "131,072 characters"),
    Case("a quote without end", 'x,y\n1,"2\n' + "3,4\n" * 50_000, "a quote that is not closed"),
    Case(
        "10,001 columns",
        ",".join(f"c{k}" for k in range(10_001)) + "\n" + "1," * 10_000 + "1\n",
        "10,001 columns or more; at most 10,000",
    ),
    Case("300,000 columns", ",".join(f"{k}c" for k in range(300_000)) + "\n1\n", "at most 10,000"),
    Case("200,000 columns of one name", ",".join("c" * 200_000) + "\n1\n", "at most 10,000"),
    Case("columns of one name", "a,a\n" + ROWS, "columns of the same name"),
    Case("numbers for names", "1,2\n" + ROWS, "holds numbers"),
    Case("one column", "y\n1\n2\n", "has one column"),
    Case("names alone", "x,y\n", "no rows"),
    Case("a row too long", "x,y\n1,2,3\n", "as many cells as there are column names"),
    Case("infinity", "x,y\n1e999,1\n" + ROWS, "infinite or absurdly large"),
    Case("a number of 5,000 digits", "x,y\n" + "9" * 5000 + ",1\n" + ROWS, "x"),
    Case(
        "text among numbers",
        "x,y\n" + ROWS + "=cmd|' /C calc'!A0,7\n",
        "holds numbers, and text in 1",
    ),
    Case("formulas alone", "x,y\n=1+1,1\n=1+1,2\n", "no input column is left"),
    Case("empty cells", "x,y\n,\n,\n", "is empty in every row"),
    Case(
        "many texts as a target",
        "x,y\n" + "".join(f"{k},t{k}\n" for k in range(99)),
        "different texts",
    ),
    Case(
        "a control character before a number",
        "x,y\n\x1e4,1\n" + ROWS,
        "holds numbers, and text in 1",
    ),
    Case("the same in the target", "x,y\n1,\x1e4\n" + ROWS, "holds numbers, and text in 1"),
    Case("ambiguous dates", "d,y\n01/02/2026,1\n02/03/2026,2\n", "the day or the month"),
)


class Bomb:
    """Pickles as a call of `os.system`."""

    def __reduce__(self) -> tuple:
        import os

        return os.system, ("touch CANARY",)


PICKLE = pickle.dumps(Bomb())


def with_header(header: str, rest: bytes = b"", length: int | None = None) -> bytes:
    """A file as safetensors has them, with any header, and any length of it."""
    text = header.encode("utf-8", "surrogatepass")
    return (len(text) if length is None else length).to_bytes(8, "little") + text + rest


WRITTEN = r'"__metadata__":{"prbnn":"{\"schema\": 1, \"written_by\": {\"prbnn\": \"0\"}}"}'
MODELS = (
    Case("nothing", b"", "no prbnn model"),
    Case("a pickle", PICKLE, "looks like a pickle, which prbnn never opens"),
    Case("a pickle behind a length", b"\x08" + bytes(7) + PICKLE, "no prbnn model"),
    Case("a zip archive", b"PK\x03\x04" + bytes(100), "no prbnn model"),
    Case("a header of 2^63 bytes", with_header('{"a":1}', length=2**63), "no prbnn model"),
    Case(
        "a header of 99 MB that is not there",
        with_header('{"a":1}', length=99_000_000),
        "cut short",
    ),
    Case("a header without end", with_header('{"a":'), "its header cannot be read"),
    Case("a header 90,000 deep", with_header('{"a":' + "[" * 90_000), "its header cannot be read"),
    Case("a key of the header twice", with_header('{"a":{},"a":{}}'), "given twice"),
    Case("tensors of somebody else", with_header('{"a":{}}'), "has no record 'prbnn'"),
    Case(
        "a record of somebody else",
        with_header('{"__metadata__":{"prbnn":"5"}}'),
        "record cannot be",
    ),
    Case("a newer record", with_header(f"{{{WRITTEN.replace('1,', '99,')}}}"), "newer prbnn"),
    Case("a record without checksum", with_header(f"{{{WRITTEN}}}"), "is damaged"),
    Case(
        "a tensor of 10^18 numbers",
        with_header(
            f'{{{WRITTEN},"a":{{"dtype":"F32","shape":[1000000000000000000],"data_offsets":[0,4]}}}}',
            bytes(4),
        ),
        "is damaged",
    ),
    Case(
        "a tensor beyond the end",
        with_header(
            f'{{{WRITTEN},"a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4000000000]}}}}',
            bytes(4),
        ),
        "cut short",
    ),
)

# names that attack whoever looks at them: pages, terminals, spreadsheets, file systems
MARK = "MARK"
NAMES = (
    f"<script>document.title='{MARK}'</script>",
    f'"><img src=x onerror={MARK}>',
    f"' onload='{MARK}' x='",
    f"</title></style></svg><b>{MARK}",
    f"]]>--><!-- {MARK}",
    f"&lt;{MARK}&gt; &#60;b&#62;",
    f"{MARK}\x1b[2J\x1b]0;owned\x07\x00\x7f",
    f"\u202e{MARK}\u2066\u200f\u2028\ufffe",
    f"${MARK}\\frac{{$_^",
    f"../../{MARK}",
    f"=HYPERLINK('{MARK}')",
    f"[link=x]{MARK}{{}}%s",
)
