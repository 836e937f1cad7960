"""Write the tables and numbers of README.md and docs/*.md from the records.

In a page, the text between two comments comes from ``records/NAME.json``; the comments are not rendered:

    <!-- record: simulation2 table -->              a table or another block of `prbnn_studies.tables`
    <!-- end -->
    <!-- record: simulation2 origin -->             how, when and where it was measured
    <!-- end -->
    <!-- record: simulation2 PR-BNN/mse : .4f -->0.0018<!-- end -->     one number: keys and format

A block may show several records of one study side by side: ``solar-seed0+solar-seed1 table``.
``python -m prbnn_studies.pages`` (``make tables``) writes all of them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from prbnn_studies.records import Record, read_record
from prbnn_studies.tables import BLOCKS

ROOT = Path(__file__).parents[2]
END = "<!-- end -->"
MARKER = re.compile(
    r"<!-- record: (?P<names>[\w+-]+) (?P<what>.+?)(?: : (?P<format>\S+))? -->"
    r"(?P<shown>.*?)" + END,
    flags=re.DOTALL,
)


def pages(root: Path = ROOT) -> Iterator[Path]:
    """Every page that may show what was measured."""
    yield root / "README.md"
    yield from sorted((root / "docs").glob("*.md"))


def read_records(folder: Path = ROOT / "records") -> dict[str, Record]:
    """Every record by the name of its file."""
    return {path.stem: read_record(path) for path in sorted(folder.glob("*.json"))}


def filled(text: str, records: Mapping[str, Record]) -> str:
    """The text of a page with everything between markers written anew.

    >>> found = {"demo": Record("", "", "", "", {"mse": 0.00184})}
    >>> filled("MSE <!-- record: demo mse : .4f -->0.1<!-- end -->.", found)
    'MSE <!-- record: demo mse : .4f -->0.0018<!-- end -->.'
    """

    def replace(found: re.Match) -> str:
        start = found[0][: found.start("shown") - found.start()]
        used = [_named(records, name) for name in found["names"].split("+")]
        if found["format"]:
            return f"{start}{number(used[0].at(found['what']), found['format'])}{END}"
        study = found["names"].split("-")[0].split("+")[0]
        return f"{start}\n\n{_block(study, found['what'], used)}\n\n{END}"

    return MARKER.sub(replace, text)


def _named(records: Mapping[str, Record], name: str) -> Record:
    if name not in records:
        raise KeyError(f"a page shows record {name!r}, but there is no records/{name}.json")
    return records[name]


def _block(study: str, what: str, records: Sequence[Record]) -> str:
    """What a page shows of records between lines of its own."""
    if what == "origin":
        return "\n\n".join(record.origin() for record in records)
    blocks = BLOCKS.get(study, {})
    if what not in blocks:
        raise KeyError(f"study {study!r} has no block {what!r}; it has {', '.join(blocks)}")
    return blocks[what](*(record.results for record in records)).markdown()


def number(value: float, format: str) -> str:
    """A number in a sentence: a space before the sign of per cent, no minus before 0.

    >>> number(0.112, ".0%"), number(-0.004, "+.0%"), number(3000, ",")
    ('11 %', '0 %', '3,000')
    """
    text = f"{value:{format}}"
    if not re.search(r"[1-9]", text):
        text = text.lstrip("+-")
    return text.replace("%", " %")


def main() -> None:
    """Write every page anew and name those that changed."""
    records = read_records()
    for page in pages():
        before = page.read_text()
        after = filled(before, records)
        if after != before:
            page.write_text(after)
            print(f"{page.relative_to(ROOT)} changed")


if __name__ == "__main__":
    main()
