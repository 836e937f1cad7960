"""Words that say what is known of a target, read as intervals; mistakes name row, column and remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prbnn.data.censoring import read_intervals
from prbnn.errors import DataError

INF = np.inf
WORDS = ["exact", "at least", "at most", "between"]
TARGETS = np.array([[1.0], [2.0], [3.0], [4.0]])
UPPER = [np.nan, np.nan, 99.0, 6.0]
LOW, HIGH = [[1.0], [2.0], [-INF], [4.0]], [[1.0], [INF], [3.0], [6.0]]


@pytest.mark.parametrize(
    ("censored", "upper"),
    [
        (WORDS, UPPER),
        (np.array(WORDS)[:, None], np.array(UPPER)[:, None]),
        (pd.Series(WORDS), pd.Series(UPPER)),
        (pd.DataFrame({"flag": WORDS}), pd.DataFrame({"end": UPPER})),
        (["Exact", " at_least", "AT MOST ", "between"], UPPER),
    ],
    ids=["lists", "arrays", "series", "frames", "spellings"],
)
def test_words_are_intervals(censored, upper) -> None:
    found = read_intervals(censored, upper, TARGETS, ("y",))
    assert found.low.tolist() == LOW
    assert found.high.tolist() == HIGH
    assert found.exact_rows.tolist() == [True, False, False, False]
    words, ends = found.words()
    again = read_intervals(words, ends, TARGETS, ("y",))
    assert (again.low.tolist(), again.high.tolist()) == (LOW, HIGH)


def test_several_targets_have_words_of_their_own() -> None:
    targets = np.tile(TARGETS, (1, 2))
    by_name = read_intervals({"b": WORDS}, {"b": UPPER}, targets, ("a", "b"))
    assert by_name.exact[:, 0].all()
    assert by_name.high[:, 1].tolist() == [1.0, INF, 3.0, 6.0]
    both = np.stack([WORDS, ["exact"] * 4], axis=1)
    ends = np.stack([UPPER, UPPER], axis=1)
    assert read_intervals(both, ends, targets, ("a", "b")).exact.tolist() == [
        [word == "exact", True] for word in WORDS
    ]


def test_without_words_there_is_nothing_to_read() -> None:
    assert read_intervals(None, None, TARGETS, ("y",)) is None


MISTAKES = {
    "a misspelt word": (
        ["exact", "at lest", "exact", "exact"],
        None,
        r"row 1 .* 'at lest'.*at least",
    ),
    "a missing word": (["exact", None, "exact", "exact"], None, r"row 1 .*of 'y' has no word"),
    "nan": (["exact", "exact", np.nan, "exact"], None, r"row 2 .*of 'y' has no word"),
    "truth values": ([True, False, True, True], None, r"row 0 .* is True; write 'exact'"),
    "too few": (["exact"], None, "censored has shape .* one entry per row .4 rows."),
    "no upper": (WORDS, None, "row 3 .*of 'y' is 'between', and there is no upper"),
    "upper missing": (WORDS, [1, 2, 3, np.nan], "row 3 .*its upper end is nan; fill it in"),
    "upper below": (WORDS, [1, 2, 3, 4], "row 3 .*'between' 4 and 4; the upper end must be above"),
    "upper alone": (None, UPPER, "also give censored"),
    "another column": (pd.DataFrame({"u": WORDS, "y": WORDS}), None, "censored has a column 'u'"),
}


@pytest.mark.parametrize(("censored", "upper", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(censored, upper, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_intervals(censored, upper, TARGETS, ("y",))
