"""The file: whole or refused, written aside and renamed, readable by other tools."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save as save_tensors

from prbnn import ModelFileError
from prbnn.system.container import SCHEMA, read, sealed
from prbnn.system.disk import write_whole as write

RECORD = {"written_by": {"prbnn": "1.2.3"}, "text": 'a "name", é, \ud800', "number": 0.1}
TENSORS = {
    "draws/weight": np.arange(24, dtype=np.float32).reshape(4, 3, 2)[:, ::-1],
    "none": np.zeros((4, 0)),
    "places": np.array([2, 1]),
}
CONTENT = sealed(RECORD, TENSORS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("files")


def refused(folder: Path, content: bytes) -> str:
    path = folder / "refused.prbnn"
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as error:
        read(path)
    assert str(path) in str(error.value)
    return str(error.value)


def test_what_was_written_is_read(folder):
    path = folder / "model.prbnn"
    write(path, CONTENT)
    record, tensors = read(path)
    assert {name: record[name] for name in RECORD} == RECORD
    assert record["schema"] == SCHEMA
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        np.testing.assert_array_equal(tensors[name], tensor)


def test_headers_of_every_length_are_read(folder):
    """A length is binary, and may begin like a pickle."""
    path, first = folder / "model.prbnn", set()
    for length in range(0, 256, 8):
        write(path, sealed({**RECORD, "text": "a" * length}, TENSORS))
        assert read(path)[0]["text"] == "a" * length
        first.add(path.read_bytes()[0])
    assert first == set(range(0, 256, 8))


def test_the_same_content_has_the_same_bytes():
    assert sealed(RECORD, dict(reversed(TENSORS.items()))) == CONTENT


def test_other_tools_read_it(folder):
    path = folder / "model.prbnn"
    write(path, CONTENT)
    with safe_open(path, framework="np") as file:
        np.testing.assert_array_equal(file.get_tensor("draws/weight"), TENSORS["draws/weight"])
        assert json.loads(file.metadata()["prbnn"])["number"] == 0.1


def test_any_changed_byte_is_refused(folder):
    for place in range(len(CONTENT)):
        damaged = bytearray(CONTENT)
        damaged[place] ^= (1, 32, 255)[place % 3]
        refused(folder, bytes(damaged))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_several_changes_are_refused(folder, data):
    places = st.integers(0, len(CONTENT) - 1)
    changes = data.draw(st.dictionaries(places, st.integers(1, 255), min_size=1, max_size=9))
    damaged = bytearray(CONTENT)
    for place, flip in changes.items():
        damaged[place] ^= flip
    refused(folder, bytes(damaged))


def test_a_file_that_was_cut_short_is_refused_and_says_so(folder):
    for length in range(10, len(CONTENT), 3):
        assert "was cut short" in refused(folder, CONTENT[:length])
    for length in range(10):
        assert "no prbnn model" in refused(folder, CONTENT[:length])


def test_bytes_after_the_end_are_refused(folder):
    assert "damaged" in refused(folder, CONTENT + b"\0")


def test_a_newer_schema_asks_for_an_upgrade(folder):
    newer = sealed({**RECORD, "schema": SCHEMA + 1}, TENSORS)
    message = refused(folder, newer)
    assert "written by a newer prbnn (version 1.2.3" in message
    assert "upgrade" in message


class Trap:
    """A pickle that would leave a mark if it were opened."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_renamed_pickle_is_not_opened(folder, protocol):
    mark = folder / f"mark{protocol}"
    message = refused(folder, pickle.dumps(Trap(mark), protocol))
    assert "no prbnn model" in message
    assert protocol < 2 or "pickle" in message
    assert not mark.exists()


def test_other_files_are_told_from_models(folder):
    archive = folder / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model.json", "{}")
    assert "no prbnn model" in refused(folder, archive.read_bytes())
    assert "no prbnn model" in refused(folder, b"a,b\n1,2\n" * 100)
    assert "no record 'prbnn'" in refused(folder, save_tensors({"a": np.zeros(3)}))
    assert "no prbnn model" in refused(folder, b"")
    odd = save_tensors({"a": np.zeros(3)}, {"prbnn": "[1, 2]"})
    assert "record cannot be read" in refused(folder, odd)


def test_a_missing_file_is_a_missing_file(folder):
    with pytest.raises(FileNotFoundError):
        read(folder / "nowhere.prbnn")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "model.prbnn"
    write(path, CONTENT)

    def fail(*_):
        raise OSError("disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk is full"):
        write(path, b"half")
    assert path.read_bytes() == CONTENT
    assert [file.name for file in tmp_path.iterdir()] == ["model.prbnn"]


def test_a_link_keeps_leading_to_the_file(tmp_path):
    (tmp_path / "link.prbnn").symlink_to(tmp_path / "model.prbnn")
    write(tmp_path / "link.prbnn", CONTENT)
    assert (tmp_path / "link.prbnn").is_symlink()
    assert (tmp_path / "model.prbnn").read_bytes() == CONTENT
