"""Numbered files of which the last two good ones are kept, and trees of arrays by name."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prbnn.errors import CheckpointError
from prbnn.system.generations import Generations
from prbnn.system.named_arrays import below, from_arrays, to_arrays, under


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_are_kept_and_numbers_go_on(tmp_path: Path) -> None:
    files = Generations(tmp_path, "state", ".bin")
    for number in range(3):
        files.write(bytes([number]))
    assert names(tmp_path) == ["state-000002.bin", "state-000003.bin"]
    again = Generations(tmp_path, "state", ".bin")
    newest, _ = again.newest_first()
    assert newest.read_bytes() == b"\x02"
    again.good = [newest]
    again.write(b"")
    assert names(tmp_path) == ["state-000003.bin", "state-000004.bin"]


def test_those_that_are_not_good_give_way(tmp_path: Path) -> None:
    files = Generations(tmp_path, "state", ".bin")
    for number in range(3):
        files.write(bytes([number]))
    damaged, good = files.newest_first()
    files.good = [good]
    files.write(b"")
    assert names(tmp_path) == ["state-000002.bin", "state-000004.bin"]
    assert not damaged.exists()


def test_the_order_is_that_of_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "state-999999.bin").write_bytes(b"")
    files = Generations(tmp_path, "state", ".bin")
    files.good = files.newest_first()
    assert files.write(b"").name == "state-1000000.bin"
    assert [path.name for path in files.newest_first()] == ["state-1000000.bin", "state-999999.bin"]


def test_all_is_removed_but_what_others_have_put_there(tmp_path: Path) -> None:
    files = Generations(tmp_path, "state", ".bin")
    files.write(b"")
    (tmp_path / ".state-000009.bin.00ff.part").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    files.remove()
    assert names(tmp_path) == ["notes.txt"]


TREE = {
    "key": jax.random.key(3),
    "number": jnp.asarray(2),
    "rest": (jnp.arange(3.0), None, np.array([1.5, -0.0])),
}


def test_a_tree_comes_back_to_the_bit() -> None:
    arrays = to_arrays(TREE)
    assert set(arrays) == {"key", "number", "rest.0", "rest.2"}
    assert arrays["number"].shape == ()
    shapes = jax.eval_shape(lambda: {**TREE, "rest": (TREE["rest"][0], None, jnp.zeros(2))})
    for like in (TREE, {**shapes, "rest": (shapes["rest"][0], None, np.zeros(2))}):
        again = from_arrays(like, arrays)
        assert again["key"] == TREE["key"]
        assert again["rest"][1] is None
        assert isinstance(again["rest"][2], np.ndarray)
        assert again["rest"][2].tobytes() == TREE["rest"][2].tobytes()
        assert jax.random.normal(again["key"]) == jax.random.normal(TREE["key"])
    assert below("a", under("a", arrays)) == arrays
    assert not below("b", under("a", arrays))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"number": np.zeros(1, np.int32)},
            r"'number' is int32 of shape \(1,\) there and int32 of",
        ),
        ({"rest.0": np.zeros(3)}, "'rest.0' is float64"),
        ({"more": np.zeros(3)}, "'more' is float64 of shape .* there and missing here"),
        ({"key": np.zeros(3, np.uint32)}, "'key' is uint32"),
    ],
)
def test_other_shapes_types_and_names_are_refused(change: dict, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        from_arrays(TREE, {**to_arrays(TREE), **change})
    lacks = to_arrays(TREE)
    del lacks["key"]
    with pytest.raises(CheckpointError, match="'key' is missing there"):
        from_arrays(TREE, lacks)
