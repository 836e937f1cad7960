"""Points of a region: inside it, evenly spread in every block, and the same every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prbnn import AtLeast, Box, Convex, Increasing, KnowledgeError
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.rules.regions import Sampling, Sweep, region, sample
from prbnn.rules.scoring.binding import bind_all

BLOCK = 64
COUNTS = [64, 256, 1000, 1024]


def close(received: Any, expected: Any) -> None:
    np.testing.assert_allclose(received, expected, rtol=1e-12, atol=1e-12)


CATEGORIES = ("flag", "grade")


def table(categories: tuple[str, ...] = CATEGORIES) -> Columns:
    """Two continuous columns, a binary one and one of three values."""
    generator = np.random.default_rng(3)
    rows = np.column_stack(
        [
            generator.uniform(0, 10, 80),
            generator.normal(5, 2, 80),
            generator.integers(0, 2, 80),
            generator.choice([1, 2, 5], 80),
        ]
    )
    names = ("x", "load", "flag", "grade")
    return Columns(names, ("y",), rows, rows[:, :1], categories=categories)


def one_column() -> Columns:
    rows = np.linspace(-1, 3, 21)[:, None]
    return Columns(("x",), ("y",), rows, rows)


def points(where: Any, count: int = 256, columns: Columns | None = None, **sampling: Any):
    return sample(Sampling(region(where), **sampling), columns or table(), count)


def between_two_rows(values: np.ndarray, rows: np.ndarray) -> bool:
    """Whether a point lies on the segment between some two rows (or on a row)."""
    starts, ends = rows[:, None, :], rows[None, :, :]
    along = ends - starts
    length = np.sum(along**2, axis=-1)
    share = np.sum((values - starts) * along, axis=-1) / np.where(length > 0, length, 1)
    distance = np.abs(starts + np.clip(share, 0, 1)[..., None] * along - values).max(axis=-1)
    return bool(distance.min() < 1e-9)


# --- one swept column ----------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
def test_points_stay_inside_the_range_and_meet_both_ends(count: int) -> None:
    swept = points({"x": (2, 7)}, count)[:, 0]
    assert len(swept) == count
    assert swept.min() == 2
    assert swept.max() == 7


def test_without_a_region_the_only_column_is_swept_over_its_data() -> None:
    swept = points(None, 256, one_column())[:, 0]
    assert (swept.min(), swept.max()) == (-1, 3)


def test_a_region_may_reach_beyond_the_data() -> None:
    swept = points({"x": (-4, 8)}, 256, one_column())[:, 0]
    assert (swept.min(), swept.max()) == (-4, 8)


def test_a_single_number_holds_a_column() -> None:
    assert set(points({"x": 3.5})[:, 0]) == {3.5}


@pytest.mark.parametrize("count", COUNTS)
def test_every_block_of_consecutive_points_is_spread(count: int) -> None:
    swept = points({"x": (2, 7)}, count, one_column())[:, 0]
    for start in range(count - BLOCK + 1):
        block = np.sort(swept[start : start + BLOCK])
        gaps = np.diff(np.concatenate([[2], block, [7]]))
        assert gaps.max() < 4 / BLOCK * (7 - 2)


@pytest.mark.parametrize("count", [1024, 4096])
def test_a_larger_pool_is_a_finer_one(count: int) -> None:
    swept = np.unique(points({"x": (0, 1)}, count, one_column())[:, 0])
    assert len(swept) >= count - 2
    assert np.diff(swept).max() < 4 / count


def test_a_swept_column_does_not_follow_the_other_columns() -> None:
    values = points({"x": (2, 7)}, 1024)
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.1


# --- steps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(0, 1.5), (1, 0), (0.5, 2)])
def test_a_step_along_the_column_stays_inside_the_region(before: float, after: float) -> None:
    swept = points({"x": (2, 7)}, column="x", before=before, after=after)[:, 0]
    close(swept.min() - before, 2)
    close(swept.max() + after, 7)


def test_a_step_along_a_column_that_the_region_does_not_name_stays_inside_the_data() -> None:
    columns = table()
    low, high = columns.span("load")
    values = points({"x": (2, 7)}, column="load", before=0.5, after=0.25)
    close([values[:, 1].min() - 0.5, values[:, 1].max() + 0.25], [low, high])
    assert (values[:, 0].min(), values[:, 0].max()) == (2, 7)


def test_rules_ask_for_the_steps_that_they_take() -> None:
    columns, where = table(), {"x": (2.0, 7.0)}
    box = region(where)
    assert AtLeast(0, where=where).sampling(columns) == Sampling(box)
    assert Increasing("x", where=where).sampling(columns) == Sampling(box, "x")
    assert Increasing("x", over=1, where=where).sampling(columns) == Sampling(box, "x", 0, 1)
    assert Convex("x", step=0.5, where=where).sampling(columns) == Sampling(box, "x", 0.5, 0.5)
    assert Convex("x", where=where).sampling(columns) == Sampling(box, "x", 0.25, 0.25)


def test_a_slope_along_a_binary_column_is_tried_between_its_values() -> None:
    swept = points(None, column="flag")[:, 2]
    assert (swept.min(), swept.max()) == (0, 1)
    assert len(np.unique(swept)) > 100


# --- the other columns ---------------------------------------------------------------------


def test_without_a_region_points_are_rows_and_points_between_two_rows() -> None:
    columns = table()
    values = points(None, 128)
    on_rows = [bool((columns.rows == value).all(axis=1).any()) for value in values]
    assert 0.4 < np.mean(on_rows) < 0.7
    assert all(between_two_rows(value[:2], columns.rows[:, :2]) for value in values)


def test_a_plain_region_takes_the_columns_it_does_not_name_from_the_rows() -> None:
    columns = table()
    values = points({"x": (20, 30)}, 128)
    assert values[:, 0].min() >= 20
    others = columns.rows[:, 1:2]
    assert all(between_two_rows(value[1:2], others) for value in values)
    assert np.isin(values[:, 1], columns.rows[:, 1]).mean() >= 0.5


FEW = [None, {"x": (0, 1)}, {"flag": (0, 1), "grade": (1, 5)}, Box()]


@pytest.mark.parametrize("where", FEW)
def test_categories_only_take_observed_values(where: Any) -> None:
    values = points(where)
    assert set(values[:, 2]) == {0, 1}
    assert set(values[:, 3]) == {1, 2, 5}


@pytest.mark.parametrize("where", FEW)
def test_a_number_is_a_number_however_few_values_it_has(where: Any) -> None:
    values = points(where, columns=table(categories=()))
    assert len(set(values[:, 2])) > 50
    assert len(set(values[:, 3])) > 50
    assert values[:, 2].min() >= 0 and values[:, 2].max() <= 1


@pytest.mark.parametrize("count", [2, 5, 12, 13])
def test_whole_numbers_in_one_column_are_swept_between_them(count: int) -> None:
    rows = (np.arange(120) % count).astype(float)[:, None]
    tried = points(None, 256, Columns(("x",), ("y",), rows, rows))[:, 0]
    assert len(set(tried)) > 200


def test_a_range_of_a_category_keeps_the_values_inside_it() -> None:
    assert set(points({"grade": (2, 5)})[:, 3]) == {2, 5}
    assert set(points({"grade": (2, 9)})[:, 3]) == {2, 5}
    assert set(points({"flag": (0.5, 1.5)})[:, 2]) == {1}


def test_a_single_number_holds_a_category_though_it_was_never_seen() -> None:
    assert set(points({"grade": 3})[:, 3]) == {3}


def test_a_range_without_a_value_of_its_category_is_refused() -> None:
    message = refused(lambda: AtLeast(0, where={"grade": (2.5, 4)}, name="floor"))
    assert message == (
        "rule 'floor': 'grade' is a category, and none of its values (1, 2, 5) lies from 2.5 to 4; "
        "state a range that holds some of them, or a single number"
    )


def test_a_slope_along_a_category_is_tried_between_its_values_where_the_region_names_it_too() -> (
    None
):
    rule, columns = Increasing("flag", where={"flag": (0, 1)}), table()
    shared = rule.sampling(columns).shared(columns)
    assert len(set(sample(shared, columns, 64)[:, 2])) > 30


def test_a_range_stated_beyond_the_values_seen_is_swept() -> None:
    """Ages of 1, 2 and 5 days and a rule up to 9: it must be tried at 9, too."""
    tried = points({"grade": (2, 9)}, columns=table(categories=()))[:, 3]
    assert tried.min() == 2
    assert tried.max() == 9
    assert len(set(tried)) > 20


def test_a_box_sweeps_all_columns() -> None:
    columns = table()
    values = points(Box(x=(20, 30)), 512)
    assert (values[:, 0].min(), values[:, 0].max()) == (20, 30)
    low, high = columns.span("load")
    close([values[:, 1].min(), values[:, 1].max()], [low, high])
    filled = np.histogram2d(values[:, 0], values[:, 1], bins=8)[0]
    assert filled.min() > 0


def test_a_box_meets_its_corners() -> None:
    values = points(Box(x=(20, 30), load=(0, 1)), 512)
    corners = {(x, load) for x, load in values[:, :2] if x in (20, 30) and load in (0, 1)}
    assert corners == {(20, 0), (20, 1), (30, 0), (30, 1)}


def test_a_box_over_many_columns_meets_the_ends_of_each_alike() -> None:
    rows = np.random.default_rng(0).uniform(0, 1, (60, 12))
    names = tuple(f"column {number}" for number in range(12))
    where = Box({name: (0, 1) for name in names})
    values = points(where, 256, Columns(names, ("y",), rows, rows[:, :1]))
    assert np.all((values == 1).any(axis=0))
    at_low_end, at_high_end = (values == 0).sum(axis=0), (values == 1).sum(axis=0)
    assert np.all(at_low_end < 3 * at_high_end)


# --- several boxes -------------------------------------------------------------------------


@pytest.mark.parametrize("boxes", [2, 3, 10, 30])
@pytest.mark.parametrize("count", [256, 1000])
def test_every_block_of_consecutive_points_visits_every_box(boxes: int, count: int) -> None:
    where = [{"x": (3 * box, 3 * box + 1)} for box in range(boxes)]
    visited = (points(where, count, one_column())[:, 0] // 3).astype(int)
    for start in range(count - BLOCK + 1):
        assert set(visited[start : start + BLOCK]) == set(range(boxes))


def test_a_list_may_mix_mappings_boxes_and_lists() -> None:
    mixed = region([{"x": (0, 1)}, [Box(x=(2, 3)), {"x": 5}]])
    assert mixed == (
        Sweep((("x", 0, 1),)),
        Sweep((("x", 2, 3),), full=True),
        Sweep((("x", 5, 5),)),
    )
    values = points([{"x": (0, 1)}, [Box(x=(2, 3)), {"x": 5}]])[:, 0]
    assert np.all((values <= 1) | ((values >= 2) & (values <= 3)) | (values == 5))


def test_regions_print_as_they_are_written() -> None:
    assert repr(region({"x": (0, 1), "load": 2})[0]) == "Sweep(x=(0, 1), load=2)"
    assert repr(Box(x=(0, 0.5))) == "Box(x=(0, 0.5))"


# --- determinism ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", [None, {"x": (0, 1)}, Box(), [{"x": (0, 1)}, Box()]])
def test_points_are_the_same_every_time(where: Any) -> None:
    first, second = points(where), points(where)
    assert np.array_equal(first, second)
    assert first.dtype == np.float64


def test_another_seed_takes_other_rows() -> None:
    sampling = Sampling(region({"x": (0, 1)}))
    first, second = (sample(sampling, table(), 64, seed) for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_sampling_leaves_the_table_alone() -> None:
    columns = table()
    before = columns.rows.copy()
    sample(Sampling(region({"x": (50, 60)})), columns, 256)
    assert np.array_equal(columns.rows, before)


# --- errors --------------------------------------------------------------------------------


def refused(rule: Any) -> str:
    columns = table()
    with pytest.raises(KnowledgeError) as caught:
        bind_all([rule()], columns, scaling_of(columns.rows, columns.targets), 64)
    return str(caught.value)


def test_an_unknown_column_is_refused_with_the_nearest_name() -> None:
    message = refused(lambda: AtLeast(0, where={"laod": (0, 1)}, name="floor"))
    assert message == "rule 'floor': no column 'laod'; did you mean 'load'?"


def test_an_unknown_column_of_a_shape_rule_is_refused_with_the_nearest_name() -> None:
    for rule in (Increasing, Convex):
        message = refused(lambda rule=rule: rule("laod", name="rising"))
        assert message == "rule 'rising': no column 'laod'; did you mean 'load'?"


def test_a_reversed_range_is_refused_where_it_is_written() -> None:
    with pytest.raises(KnowledgeError, match=r"where\['x'\] is empty: low 3 is above high 1; swap"):
        AtLeast(0, where={"x": (3, 1)})


@pytest.mark.parametrize("where", [[], (), [{"x": (0, 1)}, []]])
def test_an_empty_list_is_refused_where_it_is_written(where: Any) -> None:
    with pytest.raises(KnowledgeError, match="empty region; leave `where` out"):
        AtLeast(0, where=where)


@pytest.mark.parametrize(
    "value", [(0, 1, 2), (0,), "x", "3", None, (0, "1"), (0, float("nan")), (0, float("inf"))]
)
def test_a_range_that_is_no_pair_of_numbers_is_refused_where_it_is_written(value: Any) -> None:
    with pytest.raises(KnowledgeError, match=r"where\['x'\] must be a number or a pair"):
        AtLeast(0, where={"x": value})


@pytest.mark.parametrize("where", ["x", 3, {"x"}])
def test_what_is_no_region_is_refused_where_it_is_written(where: Any) -> None:
    with pytest.raises(KnowledgeError, match="where must be a mapping such as"):
        AtLeast(0, where=where)


@pytest.mark.parametrize(
    "rule",
    [
        lambda: Increasing("x", over=2, where={"x": (0, 1)}, name="rising"),
        lambda: Convex("x", step=0.6, where={"x": (0, 1)}, name="rising"),
        lambda: Convex("x", step=0.1, where={"x": 1}, name="rising"),
        lambda: Increasing("load", over=100, name="rising"),
    ],
)
def test_a_step_larger_than_the_region_is_refused(rule: Any) -> None:
    message = refused(rule)
    assert message.startswith("rule 'rising': a step of ")
    assert "does not fit in its region; use a smaller step or a wider range" in message


def test_a_default_step_needs_a_range() -> None:
    message = refused(lambda: Convex("x", where={"x": 1}, name="bent"))
    assert message == "rule 'bent': 'x' has no range to take a step in; give step="


def test_with_edges_a_quarter_of_the_points_are_at_an_end_of_the_swept_range() -> None:
    generator = np.random.default_rng(0)
    columns = Columns(("x", "z"), ("y",), generator.uniform(0, 1, (50, 2)), np.zeros((50, 1)))
    sampling = Sampling(region({"x": (2, 3)}))
    inside, edged = (sample(sampling, columns, 400, edges=edges)[:, 0] for edges in (False, True))
    assert np.mean(np.isin(inside, (2.0, 3.0))) < 0.02
    assert np.mean(np.isin(edged, (2.0, 3.0))) == pytest.approx(0.25, abs=0.01)
    assert {2.0, 3.0} <= set(edged)
