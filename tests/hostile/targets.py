"""What is done with a hostile case: it goes through the library's own reading, and says how it ended.

Each function returns True where the case was read and used, and False where it was refused by the
library's own error. Whatever else is raised is a defect: the drivers report it.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.hostile import grammars

from prbnn.cli.data_command import _line
from prbnn.data.encoded_table import encode, input_columns, learn_encoding
from prbnn.data.files import read_file
from prbnn.errors import DataError, KnowledgeError, ModelFileError
from prbnn.rules.expressions import Expression, ExpressionError, parse
from prbnn.rules.file.knowledge_file import parse_knowledge, write_knowledge
from prbnn.runs.preparing import read_target

X = np.array([0.3, 1.7])
LONGEST_MESSAGE = 20_000
MISSING = ("error", "drop", "impute")


def told(error: Exception, least: str = "") -> bool:
    """False, once the ``error`` is short and names what it is about."""
    message = str(error)
    assert least in message, message[:300]
    assert len(message) < LONGEST_MESSAGE, f"a message of {len(message)} characters"
    return False


def read_expression(text: str, _: Path) -> bool:
    """Parse a formula and compute it."""
    try:
        expression = parse(text)
    except ExpressionError as error:
        return told(error, "Expression refused: ")
    try:
        found = expression.evaluate({name: X for name in expression.names})
    except ExpressionError as error:
        return told(error, "which is also a column here")
    assert found.shape in {(), X.shape}, found
    assert found.dtype.kind in "fb", found
    assert Expression(expression.text) == expression
    assert pickle.loads(pickle.dumps(expression)) == expression
    return True


def read_knowledge(text: str, _: Path) -> bool:
    """Parse a knowledge file, say its rules in words and write them down again."""
    try:
        read = parse_knowledge(text, "k.yaml")
    except KnowledgeError as error:
        return told(error, "k.yaml")
    for rule in read:
        assert rule.describe()
        assert rule.label
    written = write_knowledge(read.rules, read.units)
    written.encode()
    assert parse_knowledge(written) == read, written
    return True


def read_table(content: bytes, folder: Path) -> bool:
    """Read a table; one of sixteen is shown as `prbnn data` does, and made numbers as a fit does."""
    path = folder / "t.csv"
    path.write_bytes(content)
    try:
        frame, notes = read_file(path)
    except DataError as error:
        return told(error, str(path))
    assert frame.shape[1] > 1
    assert len(frame)
    assert all(isinstance(name, str) for name in frame.columns)
    return _used(path, frame, notes, len(content)) if zlib.crc32(content) % 16 == 0 else True


def _used(path: Path, frame: Any, notes: list[str], number: int) -> bool:
    """A table that was read, shown and turned into numbers; ``number`` picks how gaps are treated."""
    shown = [_line(frame[name], str(name)) for name in frame.columns]
    assert "\n".join([*notes, *(str(line) for line in shown)])
    target = str(frame.columns[-1])
    missing: Any = MISSING[number % 3]
    try:
        values, there = read_target(frame, target, False, missing)
        assert len(values) == len(there) == len(frame)
        inputs = input_columns(frame, target)
        encoding = learn_encoding(inputs, missing)
        table = encode(encoding, inputs[there], str(path))
    except DataError as error:
        return told(error)
    assert table.values.shape == (len(table.rows), len(table.names))
    assert np.isfinite(table.values).all()
    assert type(encoding).from_plain(encoding.to_plain()) == encoding
    return True


def read_model(content: bytes, _: Path) -> bool:
    """Load a model file, and predict."""
    from prbnn.estimators.loading import restore
    from prbnn.system.container import parse_content

    try:
        model = restore("m.prbnn", *parse_content("m.prbnn", content))
    except ModelFileError as error:
        return told(error, "m.prbnn")
    width = len(model.posterior_.columns.inputs)
    found = model.predict(np.full((2, width), 0.5))
    assert found.shape[0] == 2
    assert found.dtype.kind != "f" or np.isfinite(found).all(), found
    return True


@cache
def models() -> tuple[tuple[Any, Any, bytes], ...]:
    """Records, tensors and bytes of small model files of three kinds."""
    from prbnn import MLP, AtLeast, Increasing, PRBNNClassifier, PRBNNRegressor
    from prbnn.estimators.estimator import content_of
    from prbnn.system.container import parse_content

    x = np.linspace(0, 1, 16)[:, None]
    options: Any = {"tempering": 0.2, "steps": 20, "draws": 6, "random_state": 0}
    labels = np.where(x.ravel() < 0.5, "low", "high")
    rules = [Increasing("x"), AtLeast(0)]
    fitted = (
        PRBNNRegressor(MLP((3,)), [AtLeast(-9)], **options).fit(x, x.ravel()),
        PRBNNClassifier(MLP((3,)), **options).fit(x, labels),
        PRBNNRegressor(MLP((3,)), rules, enforce="construction", **options).fit(x, x.ravel()),
    )
    contents = [content_of(model) for model in fitted]
    return tuple((*parse_content("m", content), content) for content in contents)


def model(choices: Random) -> bytes:
    """A model file with bytes changed, or with values of its record changed and a checksum that holds."""
    from prbnn.system.container import sealed

    record, tensors, content = choices.choice(models())
    if grammars.often(choices, 0.5):
        return grammars.spoilt(choices, content)
    kept = {k: v for k, v in record.items() if k not in ("file_sha256", "written_by", "schema")}
    kept = {**grammars.changed_record(choices, kept), "written_by": record["written_by"]}
    if grammars.often(choices, 0.2):
        tensors = _changed_tensors(choices, tensors)
    return sealed(kept, tensors)


def _changed_tensors(choices: Random, tensors: Any) -> Any:
    name = choices.choice(sorted(tensors))
    array = tensors[name]
    match choices.randrange(5):
        case 0:
            return {key: value for key, value in tensors.items() if key != name}
        case 1:
            return {**tensors, name: tensors[choices.choice(sorted(tensors))]}
        case 2:
            wrong = choices.choice((np.nan, np.inf, -1, 1e300, 1e38))
            with np.errstate(all="ignore"):
                return {**tensors, name: np.full(array.shape, wrong).astype(array.dtype)}
        case 3:
            kind = choices.choice(("<f8", "<f2", "<i4", "<u1", "?"))
            with np.errstate(all="ignore"):
                return {**tensors, name: np.nan_to_num(array).astype(kind)}
    shape = choices.choice(((0,), (1, 1, 1, 1), (6, 0), (), array.shape[::-1]))
    return {**tensors, name: np.zeros(shape, array.dtype)}


PARSERS: dict[str, tuple[Callable[[Random], Any], Callable[[Any, Path], bool]]] = {
    "expressions": (grammars.expression, read_expression),
    "knowledge": (grammars.knowledge, read_knowledge),
    "tables": (grammars.table, read_table),
    "models": (model, read_model),
}
