"""Model files with a valid checksum that ask for too much, or hold what no model has: refused by name.

A declaration is compared with the tensors before anything is made of it, so that none of these needs
more memory or time than the file itself.
"""

from __future__ import annotations

import copy
import json
import reprlib
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as save_tensors

from prbnn import (
    GRU,
    LSTM,
    MLP,
    RBF,
    AtLeast,
    Increasing,
    ModelFileError,
    PRBNNClassifier,
    PRBNNRegressor,
    load,
)
from prbnn.certify import Certificate
from prbnn.data.layout import Layout
from prbnn.errors import CertificateError
from prbnn.model.recurrent import over
from prbnn.model.weights import by_leaf
from prbnn.saving import reading, shapes
from prbnn.system import container as file
from prbnn.system.container import read, sealed
from prbnn.system.disk import write_whole
from prbnn.system.strict_json import parse_json

pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X = np.linspace(0, 1, 16)[:, None]
KINDS = ("rows", "classes", "built")


@cache
def model(kind: str) -> Any:
    options = {"tempering": 0.2, "steps": 20, "draws": 6, "random_state": 0}
    if kind == "classes":
        labels = np.where(X.ravel() < 0.5, "low", "high")
        return PRBNNClassifier(MLP((3,)), **options).fit(X, labels)
    if kind == "built":
        rules = [Increasing("x"), AtLeast(0)]
        options |= {"enforce": "construction"}
        return PRBNNRegressor(MLP((3,)), rules, **options).fit(X, X.ravel())
    return PRBNNRegressor(MLP((3,)), [AtLeast(-9)], **options).fit(X, X.ravel())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    for kind in KINDS:
        model(kind).save(made / f"{kind}.prbnn")
        model(kind).save(made / f"{kind}-outline.prbnn", data=False)
    return made


Place = tuple[str | int, ...]


def put(record: Any, place: Place, value: Any) -> Any:
    """A copy of a record with another value at a place."""
    if not place:
        return value
    made = copy.copy(record)
    made[place[0]] = put(made[place[0]], place[1:], value)
    return made


def changed(folder: Path, kind: str, place: Place, value: Any, name: str = "changed") -> Path:
    record, tensors = read(folder / f"{kind}.prbnn")
    path = folder / f"{name}.prbnn"
    write_whole(path, sealed(put(record, place, value), tensors))
    return path


def refused(path: Path) -> str:
    with pytest.raises(ModelFileError) as told:
        load(path)
    assert str(path) in str(told.value)
    assert len(str(told.value)) < 2000
    return str(told.value)


NETWORK = ("settings", "network")
CERTIFICATE = {
    "schema": 1,
    "weights": "0",
    "version": "0",
    "seconds": 1.0,
    "rules": [
        {
            "rule": "a",
            "region": "",
            "verdicts": "P6",
            "left": 0.0,
            "counterexamples": [],
            "tolerance": 0.0,
            "how": "boxes",
            "seconds": 0.0,
        }
    ],
}


def proof(**changes: Any) -> dict[str, Any]:
    return {**CERTIFICATE, "rules": [{**CERTIFICATE["rules"][0], **changes}]}


def layout(history: Any, ahead: Any) -> dict[str, Any]:
    parts = {"variables": ["x"], "static": [], "outputs": ["y"]}
    return {"type": "Layout", **parts, "history": history, "ahead": ahead}


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def mlp(*hidden: Any) -> dict[str, Any]:
    return {"type": "MLP", "hidden": list(hidden), "activation": "relu"}


CASES: tuple[tuple[str, Place, Any], ...] = (
    ("rows", NETWORK, mlp(*[1] * 3000)),
    ("rows", NETWORK, mlp(*[1] * 30000)),
    ("rows", NETWORK, mlp(40000, 40000)),
    ("rows", NETWORK, mlp(10**18)),
    ("rows", NETWORK, mlp(10**200)),
    ("rows", NETWORK, mlp()),
    ("rows", NETWORK, mlp(3.5)),
    ("rows", NETWORK, mlp(True, "3")),
    ("rows", NETWORK, {"type": "RBF", "bumps": 10**12}),
    ("rows", NETWORK, {"type": "RBF", "bumps": 1e12}),
    ("rows", NETWORK, {"type": "LSTM", "layers": 10**9}),
    ("rows", NETWORK, {"supply": "network", "was": "a"}),
    ("rows", NETWORK, None),
    ("built", NETWORK, mlp(*[1] * 3000)),
    ("built", NETWORK, mlp(*[3] * 3000)),
    ("built", NETWORK, mlp(10**9)),
    ("built", NETWORK, mlp(3, 10**9)),
    ("built", NETWORK, {"type": "RBF", "bumps": 10**12}),
    ("rows", ("columns", "inputs"), ["x"] * 5000),
    ("rows", ("columns", "outputs"), []),
    ("rows", ("columns", "inputs"), [1]),
    ("rows", ("columns", "layout"), layout(10**9, 0)),
    ("rows", ("columns", "layout"), layout(0, 10**9)),
    ("rows", ("columns", "layout"), layout(-1, 1)),
    ("rows", ("columns", "layout"), layout(1e9, "x")),
    ("rows", ("scaling", "input_shift"), [0.0] * 5),
    ("rows", ("scaling", "input_shift"), 10**250),
    ("rows", ("scaling", "output_scale"), [[1.0]]),
    ("rows", ("data", "count"), 10**200),
    ("rows", ("settings", "seed"), -1),
    ("rows", ("settings", "seed"), 0.5),
    ("rows", ("certificate",), proof(verdicts="P999999999")),
    ("rows", ("certificate",), proof(verdicts="P9999999 " * 5000)),
    ("rows", ("certificate",), proof(verdicts="P" + "9" * 5000)),
    ("rows", ("certificate",), proof(verdicts="P-1 P2")),
    ("rows", ("certificate",), proof(verdicts=[1])),
    ("rows", ("certificate",), proof(counterexamples=[{"draw": 10**300, "point": 1, "score": 0}])),
    ("rows", ("certificate",), proof(left=10**299 * 10**99)),
    ("rows", ("certificate",), proof(left=None)),
    ("rows", ("certificate",), []),
    ("rows", ("tempering",), {"numpy": "int8", "value": 10**200}),
    ("rows", ("tempering",), {"numpy": "float16"}),
    ("rows", ("parameters", "steps"), nested(700)),
    ("rows", ("parameters",), []),
    ("rows", ("knowledge", "rules"), [{"name": "a", "rule": {"at_least": 10**299 * 10**99}}]),
    ("rows", ("knowledge", "rules"), [{"name": "a", "rule": {"at_least": "x" * 100000}}]),
    ("rows", ("knowledge", "rules"), [{"name": "a"}] * 2),
    ("rows", ("knowledge", "holder"), "set"),
    ("rows", ("schema",), None),
    ("rows", ("schema",), [1]),
    ("rows-outline", ("data", "spans"), [[0.0, 1.0]] * 9),
    ("rows-outline", ("data", "spans"), [[0.0]]),
    ("rows-outline", ("data", "values"), ["x"]),
    ("rows-outline", ("data", "values"), []),
    ("classes", ("classes", "dtype"), "S2000000000"),
    ("classes", ("classes", "dtype"), "<U2000000000"),
    ("classes", ("classes", "dtype"), "<U500000000"),
    ("classes", ("classes", "dtype"), "V2000000000"),
    ("classes", ("classes", "dtype"), "(1000000000,)f8"),
    ("classes", ("classes", "dtype"), "f8,f8"),
    ("classes", ("classes", "dtype"), "<i8"),
    ("classes", ("classes", "dtype"), "nonsense"),
    ("classes", ("classes", "dtype"), None),
    ("classes", ("classes", "labels"), ["a"] * 5000),
    ("classes", ("classes", "labels"), {"a": 1, "b": 2}),
    ("classes", ("classes", "labels"), [nested(50), "a"]),
    ("classes", ("classes",), None),
)


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    CASES,
    ids=[f"{c[0]} {c[1]} {reprlib.repr(c[2])[:30]}" for c in CASES],
)
def test_a_record_that_asks_for_too_much_is_refused(
    folder: Path, kind: str, place: Place, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "rows" and place == NETWORK:
        # what is declared is compared with the tensors by arithmetic, before JAX hears of it
        monkeypatch.setattr(reading, "template", None)
    told = refused(changed(folder, kind, place, value))
    assert "NoneType' object is not callable" not in told


TENSORS: dict[str, np.ndarray] = {
    "raw/places": np.zeros(10**6, np.int64),
    "draws/likelihood": np.zeros((10**6, 0), np.float32),
    "draws/network/layers.0.weight": np.zeros((6, 3, 1), np.int64),
    "data/rows": np.zeros((0, 0)),
    "history/step": np.zeros(0),
}
TENSORS_REFUSED = [name for name in TENSORS if name != "history/step"]


@pytest.mark.parametrize("name", TENSORS_REFUSED)
def test_tensors_that_ask_for_too_much_are_refused(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_REPEATED", 1 << 20)
    record, tensors = read(folder / "rows.prbnn")
    path = folder / "tensors.prbnn"
    write_whole(path, sealed(record, {**tensors, name: TENSORS[name]}))
    refused(path)


def test_places_outside_are_refused(folder: Path) -> None:
    record, tensors = read(folder / "rows.prbnn")
    for place in (-1, 10**6):
        path = folder / "places.prbnn"
        write_whole(path, sealed(record, {**tensors, "raw/places": np.array([place])}))
        assert "out of bounds" in refused(path)


def spoilt(text: str) -> bytes:
    """A file whose record is this text, without a checksum that would hold."""
    return save_tensors({"a": np.zeros(3)}, {"prbnn": text})


TEXTS = (
    "",
    "[]",
    "null",
    '"text"',
    "{}",
    '{"schema": 1e999}',
    '{"schema": NaN}',
    '{"schema": 1, "schema": 1}',
    '{"schema": ' + "9" * 400 + "}",
    '{"schema": ' + "9" * 5000 + "}",
    '{"schema": "1"}',
    '{"schema": 1, "written_by": []}',
    "[" * 700 + "]" * 700,
    "[" * 90000 + "]" * 90000,
    "\0",
)


@pytest.mark.parametrize("text", TEXTS, ids=[text[:30] for text in TEXTS])
def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.prbnn"
    path.write_bytes(spoilt(text))
    refused(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path)
    if Path("/dev/zero").exists():
        assert "no prbnn model" in refused(Path("/dev/zero"))


def test_headers_that_say_a_thing_twice_are_refused(tmp_path: Path) -> None:
    """Two readers of such a header may see different files."""
    path = tmp_path / "model.prbnn"
    header = b'{"__metadata__":{"prbnn":"{}"},"__metadata__":{"prbnn":"[]"}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    assert "given twice" in refused(path)


def test_tensors_of_a_type_that_numpy_lacks_are_refused(tmp_path: Path) -> None:
    record = {"written_by": {"prbnn": "0"}}
    content = sealed(record, {"a": np.zeros(1, np.uint16)})
    start, end = file._seal(content)
    odd = content.replace(b'"U16"', b'"F6"  '[:5]).replace(b'"U16"', b'"XXX"')
    blank = odd[:start] + file.BLANK.encode() + odd[end:]
    import hashlib

    path = tmp_path / "model.prbnn"
    path.write_bytes(odd[:start] + hashlib.sha256(blank).hexdigest().encode() + odd[end:])
    refused(path)


# ---- shapes by arithmetic ---------------------------------------------------------------------

SEQUENCES = Layout(("a", "b"), 3, ("c",), ("a",), 2)
DECLARED = (
    (MLP(()), None),
    (MLP((4,)), None),
    (MLP((4, 2, 3), "tanh"), None),
    (RBF(5), None),
    (LSTM(units=3, hidden=(4,)), SEQUENCES),
    (LSTM(units=3, layers=2, hidden=()), SEQUENCES),
    (GRU(units=2, layers=3, hidden=(4, 5)), SEQUENCES),
)


@pytest.mark.parametrize(("network", "layout"), DECLARED, ids=[repr(d[0]) for d in DECLARED])
def test_shapes_by_arithmetic_are_those_that_are_built(network: Any, layout: Any) -> None:
    inputs, outputs = (3, 2) if layout is None else (len(layout.inputs), len(layout.targets))
    declared = network if layout is None else over(network, layout)
    made = shapes.template(declared, 0, inputs, outputs, 10**6)
    weights = sum(leaf.size for leaf in jax.tree.leaves(made))
    found = by_leaf(made, np.zeros((1, weights)))
    assert declared.shapes(inputs, outputs) == {k: v.shape[1:] for k, v in found.items()}
    shapes.check_declared(declared, declared.shapes(inputs, outputs), inputs, outputs)


# ---- certificates -----------------------------------------------------------------------------

CERTIFICATES = (
    b"",
    b" \n",
    b"\xff\xfe",
    b"\0",
    b"[]",
    b"{}",
    b'{"schema": 1e999}',
    b'{"schema": 1, "schema": 1}',
    b"[" * 90000,
    b"9" * 400,
    b"{" * 50 + b"}" * 50,
    json.dumps(proof(verdicts="P999999999")).encode(),
    json.dumps(proof(verdicts="U9999999 " * 100)).encode(),
    json.dumps({**CERTIFICATE, "seconds": [1]}).encode(),
    json.dumps({**CERTIFICATE, "rules": 5}).encode(),
)


@pytest.mark.parametrize("content", CERTIFICATES, ids=[str(c[:24]) for c in CERTIFICATES])
def test_a_certificate_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(content)
    with pytest.raises(CertificateError) as told:
        Certificate.load(path)
    assert str(path) in str(told.value)


def test_a_folder_is_no_certificate_and_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="folder"):
        Certificate.load(tmp_path)
    path = tmp_path / "certificate.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(CERTIFICATE).encode())
    assert Certificate.load(path)["a"].proved == 6


# ---- any change at all ------------------------------------------------------------------------

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from([10**9, 10**18, -1, 0, 10**290]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from([[], {}, [[]], {"type": "MLP"}, {"supply": "network"}, {"number": "nan"}]),
    st.lists(st.integers(0, 10**9), max_size=3),
)


def places(record: Any, path: Place = ()) -> list[Place]:
    inside = record.items() if isinstance(record, dict) else enumerate(record)
    found = [(*path, key) for key, _ in inside]
    inside = record.items() if isinstance(record, dict) else enumerate(record)
    for key, value in inside:
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_changed_value_loads_or_is_refused(folder: Path, kind: str, data: Any) -> None:
    record, _ = read(folder / f"{kind}.prbnn")
    del record["file_sha256"], record["written_by"]
    place = data.draw(st.sampled_from(places(record)))
    path = changed(folder, kind, place, data.draw(ODD), "fuzzed")
    try:
        load(path)
    except ModelFileError as error:
        assert str(path) in str(error)


def test_json_that_other_readers_would_guess_at_is_refused() -> None:
    assert parse_json(b"\xef\xbb\xbf[1]") == [1]
    assert parse_json(json.dumps(nested(90))) == nested(90)
    for text in (
        "NaN",
        "-Infinity",
        "1e400",
        '{"a": 1, "a": 1}',
        "1" * 301,
        "",
        "[1,]",
        "{'a': 1}",
    ):
        with pytest.raises(ValueError):
            parse_json(text)
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        parse_json(json.dumps(nested(110)))
