"""Hostile files through the public entrances: refused by name, nothing run, nothing written outside."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.hostile.corpus import (
    EXPRESSIONS,
    KNOWLEDGE,
    MARK,
    MODELS,
    NAMES,
    TABLES,
    Case,
)
from tests.hostile.targets import models
from tests.hostile.watching import watched
from typer.testing import CliRunner, Result

from prbnn import MLP, AtLeast, Increasing, ModelFileError, PRBNNRegressor, load
from prbnn.cli.main import app
from prbnn.report.page import Subject, write_report
from prbnn.rules.file.located import one_line
from prbnn.system.container import sealed

pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

LONGEST = 20_000
DATA = "x,y\n" + "".join(f"{k},{k % 7 + 0.5}\n" for k in range(60))


def prbnn(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory, short_race: None) -> Path:
    """A fitted run; what is imported and compiled on first use is not a case's own time."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "data.csv").write_text(DATA)
    (folder / "k.yaml").write_text("knowledge: [{name: low, at_least: -9}]\n")
    data, run = folder / "data.csv", folder / "run"
    small = ("--hidden", "2", "--steps", "5", "--draws", "4", "--no-plain")
    for command in (
        ("data", data),
        ("knowledge", "check", folder / "k.yaml", data),
        ("fit", data, "--target", "y", "--knowledge", folder / "k.yaml", "--out", run, *small),
        ("predict", run, data, "--out", folder / "p.csv"),
    ):
        done = prbnn(*command)
        assert done.exit_code == 0, done.output
    load(run / "model.prbnn")
    return folder


def refused(done: Result, words: str) -> None:
    """The command ended as it does on bad input: one error, its own, and no traceback."""
    assert done.exit_code == 2, (done.exit_code, done.output[-500:], done.exception)
    assert isinstance(done.exception, SystemExit)
    assert "Error: " in done.output
    assert words in done.output.replace("\n", " "), done.output[:1500]
    assert "Traceback" not in done.output
    assert len(done.output) < LONGEST


def armed(content: Any, folder: Path) -> bytes:
    """The content of a case, with a path for its canary."""
    made = content.encode() if isinstance(content, str) else content
    return made.replace(b"CANARY", str(folder / "canary").encode())


@pytest.mark.parametrize("case", EXPRESSIONS, ids=str)
def test_expressions(case: Case, tmp_path: Path) -> None:
    """In a knowledge file, as they arrive."""
    text = one_line({"knowledge": [{"at_least": case.content}]})
    (tmp_path / "k.yaml").write_bytes(armed(text, tmp_path))
    (tmp_path / "data.csv").write_text(DATA)
    with watched(tmp_path, tmp_path / "out"):
        done = prbnn("knowledge", "check", tmp_path / "k.yaml", tmp_path / "data.csv")
    refused(done, "Expression refused")
    assert case.words in done.output


@pytest.mark.parametrize("case", KNOWLEDGE, ids=str)
def test_knowledge_files(case: Case, tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_bytes(armed(case.content, tmp_path))
    (tmp_path / "data.csv").write_text(DATA)
    with watched(tmp_path, tmp_path / "out"):
        checked = prbnn("knowledge", "check", tmp_path / "k.yaml", tmp_path / "data.csv")
    refused(checked, case.words)
    command = ("fit", tmp_path / "data.csv", "--target", "y", "--knowledge", tmp_path / "k.yaml")
    with watched(tmp_path, tmp_path / "out"):
        fitted = prbnn(*command, "--out", tmp_path / "out")
    refused(fitted, case.words)


@pytest.mark.parametrize("case", TABLES, ids=str)
def test_tables(case: Case, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(armed(case.content, tmp_path))
    first = tmp_path / "t.csv"
    with watched(tmp_path, tmp_path / "out"):
        fitted = prbnn("fit", first, "--target", "y", "--out", tmp_path / "out", "--steps", "5")
    refused(fitted, case.words)
    with watched(tmp_path, tmp_path / "out"):
        shown = prbnn("data", first)
    assert shown.exit_code in (0, 2), shown.output
    assert "Traceback" not in shown.output


@pytest.mark.parametrize("case", MODELS, ids=str)
def test_model_files(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "m.prbnn"
    path.write_bytes(armed(case.content, tmp_path))
    with watched(tmp_path, tmp_path / "out"), pytest.raises(ModelFileError) as told:
        load(path)
    assert str(path) in str(told.value)
    assert case.words in str(told.value)
    assert len(str(told.value)) < LONGEST


def _spoilt_models() -> dict[str, Any]:
    """Model files with a checksum that holds, by name: what is changed in record and tensors."""
    weight = "draws/network/layers.0.weight"

    def nan(record: Any, tensors: Any) -> Any:
        return record, {**tensors, weight: np.full_like(tensors[weight], np.nan)}

    def whole(record: Any, tensors: Any) -> Any:
        return record, {**tensors, weight: tensors[weight].astype(np.int32)}

    def flat(record: Any, tensors: Any) -> Any:
        return record, {**tensors, weight: tensors[weight].ravel()}

    def none(record: Any, tensors: Any) -> Any:
        return record, {name: part[:0] for name, part in tensors.items()}

    def climbs(record: Any, tensors: Any) -> Any:
        rest = {name: part for name, part in tensors.items() if name != weight}
        return record, {**rest, "draws/network/../../../canary": tensors[weight]}

    def wide(record: Any, tensors: Any) -> Any:
        network = {"type": "MLP", "hidden": [10**9, 10**9], "activation": "relu"}
        return {**record, "settings": {**record["settings"], "network": network}}, tensors

    def code(record: Any, tensors: Any) -> Any:
        network = {"type": "os.system", "command": "touch CANARY"}
        return {**record, "settings": {**record["settings"], "network": network}}, tensors

    def estimator(record: Any, tensors: Any) -> Any:
        return {**record, "estimator": "os.system"}, tensors

    def rule(record: Any, tensors: Any) -> Any:
        bad = [{"name": "a", "rule": {"at_least": "__import__('os').system('touch CANARY')"}}]
        return {**record, "knowledge": {**record["knowledge"], "rules": bad}}, tensors

    return {
        "NaN": (nan, "NaN or infinite"),
        "int32": (whole, "holds int32"),
        "flat weights": (flat, "whose weights are"),
        "no draws": (none, ""),
        "a name that climbs": (climbs, ""),
        "10^18 weights": (wide, "tensors"),
        "a type that is code": (code, "does not know"),
        "an estimator that is code": (estimator, "no estimator 'os.system'"),
        "a rule that is code": (rule, "Expression refused"),
    }


@pytest.mark.parametrize("name", _spoilt_models())
def test_model_files_with_a_checksum_that_holds(name: str, tmp_path: Path) -> None:
    change, words = _spoilt_models()[name]
    record, tensors, _ = models()[0]
    kept = {key: part for key, part in record.items() if key not in ("file_sha256", "schema")}
    path = tmp_path / "m.prbnn"
    path.write_bytes(sealed(*change(kept, tensors)))
    with watched(tmp_path, tmp_path / "out"), pytest.raises(ModelFileError) as told:
        load(path)
    assert str(path) in str(told.value)
    assert words in str(told.value), str(told.value)


def test_every_truncation_of_a_model_is_refused(tmp_path: Path) -> None:
    _, _, content = models()[0]
    path = tmp_path / "m.prbnn"
    for length in np.linspace(0, len(content) - 1, 60).astype(int):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load(path)
    path.write_bytes(content + b"more")
    with pytest.raises(ModelFileError):
        load(path)


# ---- run folders ------------------------------------------------------------------------------


def _link(name: str, to: str) -> Any:
    def change(run: Path, victim: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim / to if not to.startswith("/") else to)

    return change


def _write(name: str, content: bytes) -> Any:
    def change(run: Path, victim: Path) -> None:
        (run / name).write_bytes(content)

    return change


def _record(**changes: Any) -> Any:
    def change(run: Path, victim: Path) -> None:
        record = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**record, **changes}))

    return change


def _pipe(name: str) -> Any:
    def change(run: Path, victim: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return change


def _folder(name: str) -> Any:
    def change(run: Path, victim: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).mkdir()

    return change


def _swapped(run: Path, victim: Path) -> None:
    _, _, content = models()[0]
    (run / "model.prbnn").write_bytes(content)


def _saved_link(run: Path, victim: Path) -> None:
    """The files of a save that was killed are moved in: here they would be somebody else's."""
    for name in ("model.prbnn", "run.json", "rows.safetensors"):
        shutil.copy(run / name, victim / name)
    (run / ".saved").symlink_to(victim, target_is_directory=True)


def _rows(run: Path, victim: Path) -> None:
    """Rows with a header that lies, and a record that vouches for them."""
    bad = (2**40).to_bytes(8, "little") + b'{"inputs":{"dtype":"F64","shape":[9]}}'
    (run / "rows.safetensors").write_bytes(bad)
    record = json.loads((run / "run.json").read_text())
    record["files"]["rows.safetensors"] = hashlib.sha256(bad).hexdigest()
    (run / "run.json").write_text(json.dumps(record))


PREDICT, REPORT, CHECK = "predict", "report", "check"
FOLDERS = {
    "a save that leads out": (_saved_link, PREDICT, "is a symbolic link"),
    "a page that leads out": (_link("report.html", "precious"), REPORT, "is a symbolic link"),
    "a page that leads nowhere": (_link("report.html", "new"), REPORT, "is a symbolic link"),
    "a picture that leads out": (_link("along-1.png", "precious"), REPORT, "is a symbolic link"),
    "a certificate that leads out": (_link("certificate.json", "precious"), CHECK, "symbolic link"),
    "a certificate that leads nowhere": (_link("certificate.json", "new"), CHECK, "symbolic link"),
    "a model without end": (_link("model.prbnn", "/dev/zero"), PREDICT, "a pipe or a device"),
    "a record without end": (_link("run.json", "/dev/zero"), PREDICT, "a pipe or a device"),
    "rows that are a pipe": (_pipe("rows.safetensors"), PREDICT, "a pipe or a device"),
    "a model that is a folder": (_folder("model.prbnn"), PREDICT, "is a folder"),
    "a model of another run": (_swapped, PREDICT, "does not belong to the run"),
    "a file outside": (_record(files={"../precious": "0"}), PREDICT, "its files are"),
    "a record that is text": (_write("run.json", b"x"), PREDICT, "is damaged"),
    "a record that is code": (_write("run.json", b"__import__('os')"), PREDICT, "is damaged"),
    "a record that is empty": (_write("run.json", b""), PREDICT, "is damaged"),
    "a record 90,000 deep": (_write("run.json", b"[" * 90_000), PREDICT, "nested"),
    "a record with NaN": (_write("run.json", b'{"schema": NaN}'), PREDICT, "not a valid JSON"),
    "a record twice": (_write("run.json", b'{"schema": 1, "schema": 1}'), PREDICT, "given twice"),
    "a newer record": (_record(schema=99), PREDICT, "newer prbnn"),
    "a record of 10^299": (_record(schema=10**299), PREDICT, "newer prbnn"),
    "a plan that is a list": (_record(plan=[]), PREDICT, "is damaged"),
    "a plan with more": (_record(plan={"os.system": "x"}), PREDICT, "is damaged"),
    "an encoding of nothing": (_record(encoding={"columns": []}), PREDICT, "is damaged"),
    "units that are numbers": (_record(units={"x": 1}), PREDICT, "is damaged"),
    "notes that are a number": (_record(notes=5), PREDICT, "is damaged"),
    "rows whose header lies": (_rows, PREDICT, "is damaged"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_run_folders(name: str, warm: Path, tmp_path: Path) -> None:
    change, command, words = FOLDERS[name]
    victim, run, out = tmp_path / "victim", tmp_path / "out" / "run", tmp_path / "out"
    victim.mkdir()
    (victim / "precious").write_text("precious")
    shutil.copytree(warm / "run", run)
    change(run, victim)
    further = {
        PREDICT: (warm / "data.csv", "--out", out / "p.csv"),
        REPORT: (),
        CHECK: ("--seconds", "1"),
    }
    if command == PREDICT:
        with watched(tmp_path, out):
            done = prbnn(command, run, *further[command])
    else:  # a page is drawn, or draws are evaluated, before it is written
        done = prbnn(command, run, *further[command])
    refused(done, words)
    assert (victim / "precious").read_text() == "precious"
    assert not (victim / "new").exists()


def test_a_lock_that_leads_out_is_not_written_through(warm: Path, tmp_path: Path) -> None:
    """What a lock says of its holder would be the end of the file that it leads to."""
    run = tmp_path / "run"
    shutil.copytree(warm / "run", run)
    (tmp_path / "precious").write_text("precious")
    (run / ".lock").symlink_to(tmp_path / "precious")
    (run / ".saved").mkdir()
    for name in ("model.prbnn", "run.json", "rows.safetensors", "knowledge.yaml"):
        shutil.copy(run / name, run / ".saved" / name)
    assert prbnn("predict", run, warm / "data.csv", "--out", tmp_path / "p.csv").exit_code == 0
    fitted = prbnn("fit", warm / "data.csv", "--target", "y", "--out", run, "--steps", "5")
    refused(fitted, "is a symbolic link")
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_file_that_may_not_be_read_is_told(warm: Path, tmp_path: Path) -> None:
    shutil.copytree(warm / "run", tmp_path / "run")
    (tmp_path / "run" / "model.prbnn").chmod(0)
    refused(prbnn("predict", tmp_path / "run", warm / "data.csv"), "Permission denied")


# ---- Parquet ----------------------------------------------------------------------------------


def _parquet(table: Any, **metadata: str) -> bytes:
    import pyarrow
    from pyarrow import parquet

    made, written = pyarrow.table(table), io.BytesIO()
    if metadata:
        made = made.replace_schema_metadata(metadata)
    parquet.write_table(made, written)
    return written.getvalue()


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the parquet extra")
    same = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(np.zeros(60_000_000, np.int8)), pyarrow.array(["a"])
    )
    whole = _parquet({"x": [1.0, 2.0], "y": [1.0, 2.0]})
    cases = {
        "text": (b"x,y\n1,2\n", "not a Parquet file"),
        "nothing": (b"", "not a Parquet file"),
        "magic alone": (b"PAR1PAR1", "not a Parquet file"),
        "a footer that lies": (whole[:-8] + b"\xff\xff\xff\x7fPAR1", "not a Parquet file"),
        "cut short": (whole[:-20], "not a Parquet file"),
        "120 million cells": (_parquet({"x": same, "y": same}), "at most 100,000,000"),
        "10,001 columns": (_parquet({f"c{k}": [1] for k in range(10_001)}), "at most 10,000"),
        "notes that are code": (
            _parquet({"x": [1.0], "y": [1.0]}, pandas="__import__('os')"),
            "not a Parquet file",
        ),
    }
    (tmp_path / "warm.parquet").write_bytes(whole)
    prbnn("data", tmp_path / "warm.parquet")
    for content, words in cases.values():
        (tmp_path / "t.parquet").write_bytes(content)
        with watched(tmp_path, tmp_path / "out"):
            done = prbnn("data", tmp_path / "t.parquet")
        refused(done, words)


@pytest.mark.slow
def test_a_cell_of_200_mb(tmp_path: Path) -> None:
    """In the first MiB it is refused at once; behind it, memory stays in proportion to the file."""
    path = tmp_path / "t.csv"
    for first in (0, 300_000):
        with path.open("wb") as file:
            file.write(b"x,y\n" + b"1,2\n" * first)
            for _ in range(200):
                file.write(b"a" * 1_000_000)
            file.write(b",1\n3,4\n")
        done = prbnn("fit", path, "--target", "y", "--out", tmp_path / "out", "--steps", "5")
        refused(done, "131,072 characters" if not first else "holds numbers, and text in 1 row")


# ---- names ------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Elements with the names of their attributes, values of attributes, and text."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: set[tuple[str, str]] = set()
        self.values: list[str] = []
        self.words: list[str] = []
        self.others: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.elements |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.values += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    unknown_decl = handle_pi = handle_comment


def _page(names: tuple[str, ...], count: int, folder: Path) -> str:
    """The report of a small model: ``count`` columns, target, rules, units and title have these names."""
    x = np.random.default_rng(0).uniform(size=(40, count))
    rules = [AtLeast(-99, name=names[0], because=names[1]), Increasing(names[2], name=names[3])]
    options: Any = {"tempering": 0.2, "steps": 5, "draws": 4, "random_state": 0}
    model = PRBNNRegressor(MLP((2,)), rules, **options)
    model.fit(
        pd.DataFrame(x, columns=list(names[:count])),
        pd.DataFrame({f"out {names[4]}": x.sum(axis=1)}),
    )
    units = {name: names[5] for name in names[:3]}
    about: Any = {"units": units, "command": names[6], "notes": names}
    subject = Subject(model, None, x, x.sum(axis=1), np.arange(40) % 2 == 0, names[7], **about)
    return write_report(subject, folder, pictures=False).read_text(encoding="utf-8")


def test_names_are_text_in_a_page_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plain = Page(_page(tuple(f"c{k}" for k in range(len(NAMES))), 3, out))
    text = _page(NAMES, len(NAMES), out)
    page = Page(text)
    assert page.elements <= plain.elements, page.elements - plain.elements
    assert not any(MARK in value for value in page.values)
    assert not page.others
    assert sum(word.count(MARK) for word in page.words) > len(NAMES)
    unseen = [mark for mark in text if unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert set(unseen) <= {"\n"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in out.iterdir()] == ["report.html"]


def test_names_stay_text_from_a_table_to_predictions(tmp_path: Path) -> None:
    """A table whose header attacks: read, fitted, predicted and reported, inside the folder for it."""
    names = [name for name in NAMES if "\0" not in name and "\u2028" not in name]
    x = np.random.default_rng(0).uniform(size=(40, len(names)))
    pd.DataFrame(x, columns=names).to_csv(tmp_path / "t.csv", index=False)
    out, run = tmp_path / "out", tmp_path / "out" / "run"
    out.mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    small = ("--hidden", "2", "--steps", "5", "--draws", "4", "--held-out", "0")
    target = names[-1]
    for command in (
        ("data", tmp_path / "t.csv"),
        ("fit", tmp_path / "t.csv", f"--target={target}", "--out", run, *small),
        ("predict", run, tmp_path / "t.csv", "--out", out / "p.csv"),
        ("report", run, "--no-pictures"),
    ):
        done = prbnn(*command)
        assert done.exit_code == 0, done.output
        assert not any(unicodedata.category(mark) in ("Cf", "Cs") for mark in done.output)
        assert "\x1b" not in done.output
    assert {path.name for path in tmp_path.iterdir()} == before
    page = Page((run / "report.html").read_text(encoding="utf-8"))
    assert not any(MARK in value for value in page.values)
    assert {tag for tag, _ in page.elements}.isdisjoint(
        {"script", "img", "b" * 9, "iframe", "link"}
    )


@pytest.mark.skipif(sys.platform == "win32", reason="commands of a shell")
def test_the_canary_would_sing(tmp_path: Path) -> None:
    """The watch itself: what it forbids is noticed."""
    with pytest.raises(AssertionError, match=r"os\.system"), watched(tmp_path, tmp_path / "out"):
        os.system("true")
    with pytest.raises(AssertionError, match="open"), watched(tmp_path, tmp_path / "out"):
        (tmp_path / "canary").write_text("sings")
    with (
        pytest.raises(AssertionError, match=r"pickle\.find_class"),
        watched(tmp_path, tmp_path / "o"),
    ):
        import pickle

        pickle.loads(b"cbuiltins\nprint\n.")
