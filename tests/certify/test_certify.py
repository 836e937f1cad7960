"""Verdicts on rules: known truths, no false proof, and certificates that can be kept."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from prbnn import AtLeast, AtMost, Box, Compare, Convex, Decreasing, Increasing, Score, SlopeBetween
from prbnn.certify import Certificate, certify
from prbnn.certify.certificate import RuleCertificate
from prbnn.certify.certifying import Certifier
from prbnn.certify.questions import boxes
from prbnn.errors import CertificateError
from tests.certify.made import folded, network, plane, posterior, unit_rows
from tests.compiling import compilations

pytestmark = pytest.mark.light


def box(inputs: int) -> Box:
    return Box({name: (0.0, 1.0) for name in "abcdefgh"[:inputs]})


@pytest.mark.parametrize("inputs", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_a_plane_that_touches_its_bound(inputs: int) -> None:
    """Least value 0 at a corner: not below; less than the tolerance below; twice that below."""
    slopes = np.where(np.arange(inputs) % 2, -1.0, 1.0)
    least = float(np.minimum(slopes, 0).sum())
    draws = [plane(slopes, -least - below) for below in (0.0, 0.9e-4, 2e-4)]
    (found,) = certify(
        posterior(draws, unit_rows(inputs)), [AtLeast(0, where=box(inputs))], 20
    ).rules
    assert found.verdicts == "PPR"
    (corner,) = found.counterexamples
    assert corner.draw == 2
    assert list(corner.point.values()) == pytest.approx((slopes < 0).astype(float))
    assert corner.score == pytest.approx(-2e-4, rel=1e-2)


@pytest.mark.parametrize("inputs", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_monotone_but_for_a_corner(inputs: int) -> None:
    """A slope that turns in a hundredth of the volume, or nowhere in the cube."""
    draws = [folded(inputs, 0.01), folded(inputs, 0.0), folded(inputs, 1e-6)]
    given = posterior(draws, unit_rows(inputs))
    # the flat one is not decided, and takes all the seconds there are
    (found,) = certify(given, [Increasing("a", where=box(inputs))], 1.5 if inputs == 3 else 4).rules
    assert found.verdicts[0] == "R"
    assert found.verdicts[1] != "R"
    assert found.verdicts[2] != "P"
    point = np.array([*found.counterexamples[0].point.values()])
    reach = (0.01 * np.prod(np.arange(1, inputs + 1))) ** (1 / inputs)
    assert point.sum() >= inputs - reach - 1e-6
    assert np.all((point >= 0) & (point <= 1))


@pytest.mark.slow
def test_a_smooth_saddle() -> None:
    """y = tanh(a) (b - limit): rising in a where b is above the limit."""
    rows = unit_rows(2)
    # products of tanh are no network; differences of tanh at b-dependent places are
    rising = network([([[1.0, 0.3], [0.2, -0.1]], [0.0, 0.1]), ([[1.0, 0.5]], [0.0])], "tanh")
    falling = network([([[1.0, 0.3], [3.0, 3.0]], [0.0, -5.7]), ([[1.0, -0.6]], [0.0])], "tanh")
    given = posterior([rising, falling], rows)
    (found,) = certify(given, [Increasing("a", where=box(2))], 20).rules
    assert found.verdicts == "PR"
    # there the second tanh is steep: 3 a + 3 b is about 5.7
    point = found.counterexamples[0].point
    assert 3 * point["a"] + 3 * point["b"] > 4.5


def test_counterexamples_are_what_a_check_calls_broken() -> None:
    draws = [folded(3, 0.01), folded(3, 0.0)]
    given = posterior(draws, unit_rows(3), "standard")
    rule = Increasing("a", where=box(3))
    (found,) = certify(given, [rule], 20).rules
    assert found.verdicts[0] == "R"
    from prbnn.rules.scoring.binding import bind_at

    point = np.array([[*found.counterexamples[0].point.values()]])
    knowledge = bind_at([rule], given.columns, given.scaling, point)
    assert given.take(np.array([0])).check([rule], knowledge).broken()[0, 0]


@pytest.mark.slow
def test_the_region_is_what_is_proved() -> None:
    """y = |a - 0.5|: falling, then rising; convex everywhere; the kink is not a proof's end."""
    kink = network([([[1.0], [-1.0]], [-0.5, 0.5]), ([[1.0, 1.0]], [0.0])])
    given = posterior([kink], unit_rows(1))
    rules = [
        Increasing("a", where={"a": (0.51, 1)}, name="right"),
        Increasing("a", where={"a": (0.4, 1)}, name="too far left"),
        Decreasing("a", where=[{"a": (0, 0.2)}, {"a": (0.3, 0.45)}], name="two boxes"),
        Convex("a", step=0.25, name="convex"),
        SlopeBetween("a", -1, 1, name="slopes"),
        SlopeBetween("a", -0.9, 1, name="too flat"),
        AtMost("abs(a - 0.5)", name="touching"),
        AtMost("abs(a - 0.5) - 0.001", name="below"),
    ]
    found = certify(given, rules, 60)
    assert {rule.rule: rule.verdicts for rule in found.rules} == {
        "right": "P",
        "too far left": "R",
        "two boxes": "P",
        "convex": "P",
        "slopes": "P",
        "too flat": "R",
        "touching": "P",
        "below": "R",
    }


def test_other_columns_are_held_at_training_rows() -> None:
    """y = a b: rising in a exactly where b >= 0."""
    quarter = network(
        [([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]), ([[0.25, -0.25]], [0.0])], "rbf"
    )  # e^-(a+b)^2 - e^-(a-b)^2 falls in a b
    rows = np.column_stack([np.linspace(0.1, 0.5, 9), np.linspace(-0.4, -0.1, 9)])
    given = posterior([quarter], rows)
    (found,) = certify(given, [Increasing("a", where={"a": (0.0, 0.3)})], 20).rules
    assert "the others at 9 training rows" in found.region
    assert found.verdicts == "P"
    rows[4, 1] = 0.3
    (found,) = certify(
        posterior([quarter], rows), [Increasing("a", where={"a": (0.0, 0.3)})], 20
    ).rules
    assert found.verdicts == "R"
    assert found.counterexamples[0].point["b"] == pytest.approx(0.3)
    lower, _, words, _ = boxes(Increasing("a").sampling(given.columns), given.columns, 3)
    assert "3 of 9 training rows" in words
    assert len(lower) == 3


COMPARED = [
    (Compare({"b": 1}, below={"b": 0}, where={"a": (0, 1)}), "P"),
    (Compare({"b": 1}, below={"b": 0}, by="0.2 + 0.01 * a", where={"a": (0, 1)}), "R"),
    (Compare({"b": 1}, below={"b": 0}, by="0.2 + 0 * a", where={"a": (0, 1)}), "P"),
    (Score(lambda f, x: 1.001 - f.slope(x, "a") * f(x), where={"a": (0, 1)}), "P"),
]
LATER = [pytest.param(*case, marks=pytest.mark.slow) for case in COMPARED[2:]]


@pytest.mark.parametrize(("rule", "verdict"), [*COMPARED[:2], *LATER])
def test_compare_and_scores_of_ones_own(rule, verdict: str) -> None:
    """y = a - 0.2 b, b a flag."""
    flag = network([([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), ([[1.0, -0.2]], [0.0])])
    rows = unit_rows(2)
    rows[:, 1] = np.arange(len(rows)) % 2
    assert certify(posterior([flag], rows), [rule], 40).rules[0].verdicts == verdict


def test_what_cannot_be_enclosed_is_undecided_and_says_why() -> None:
    given = posterior([plane([1.0], 0.0)], unit_rows(1))

    def steps(x):
        return float(np.asarray(x)[0, 0])

    (found,) = certify(given, [AtLeast(steps, name="opaque")], 5).rules
    assert found.verdicts == "U"
    assert found.left == 1.0
    assert "steps could not be traced" in found.how


def test_time_that_runs_out_leaves_draws_undecided() -> None:
    """What one call would prove, none does: all is left, and told."""
    draws = [folded(5, 0.0)] * 3
    rule = AtLeast("a - 0.00009", where=box(5))
    (found,) = certify(posterior(draws, unit_rows(5)), [rule], 1e-9).rules
    assert found.undecided == 3
    assert found.left == 1


def test_further_draws_need_no_further_programs() -> None:
    rule = AtLeast(0, where=box(2))
    first = posterior([plane([1, 1], 0.1), plane([1, 1], 0.2), plane([-1, -1], 0)], unit_rows(2))
    certifier = Certifier(first, [rule])
    assert certifier.certify(first, 5).rules[0].verdicts == "PPR"
    other = posterior([plane([1, 1], 0.1), plane([1, -1], 0.5)], unit_rows(2))
    with compilations() as compiled:
        assert certifier.certify(other, 5).rules[0].verdicts == "PR"
    assert compiled == []


def test_chance_of_breaking() -> None:
    """Clopper and Pearson's bound: 3 / n without a failure, and exact otherwise."""

    def of(verdicts: str) -> RuleCertificate:
        return RuleCertificate("r", "", verdicts, 0.0, (), 0.0, "boxes", 0.0)

    assert of("P" * 299).chance_of_breaking(0.95) == pytest.approx(0.00997, abs=1e-5)
    assert of("P" * 95 + "RRUUU").chance_of_breaking(0.95) == pytest.approx(0.1022, abs=2e-4)
    assert of("R").chance_of_breaking() == 1.0
    generator = np.random.default_rng(0)
    truth, held = 0.03, 0
    for _ in range(2000):
        broken = int(generator.binomial(200, truth))
        held += of("R" * broken + "P" * (200 - broken)).chance_of_breaking(0.9) >= truth
    assert held / 2000 >= 0.9 - 2.33 * np.sqrt(0.09 / 2000)
    with pytest.raises(ValueError, match="confidence"):
        of("P").chance_of_breaking(1.0)


# ---- certificates -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certified() -> tuple:
    given = posterior([plane([1, 1], 0.0), plane([1, -1], 0.5)], unit_rows(2))
    return given, certify(given, [AtLeast(0, where=box(2)), AtMost(3, where=box(2))], 10)


def test_a_certificate_is_small_json_and_back(certified: tuple, tmp_path) -> None:
    given, certificate = certified
    path = tmp_path / "certificate.json"
    certificate.save(path)
    assert path.stat().st_size < 2000
    assert Certificate.load(path) == certificate
    assert certificate.is_of(given)
    rules = [AtLeast(0, where=box(2)), AtMost(3, where=box(2))]
    assert Certificate.load(path, given, rules) == certificate
    moved = replace(given, draws=given.draws + np.float32(1e-6))
    assert not certificate.is_of(moved)
    assert certificate["output <= 3"].proved == 2
    assert not certificate.holds
    assert certificate.proved.tolist() == [True, False]
    assert [set(record) for record in certificate.records()] == [
        {"rule", "draws", "proved", "refuted", "undecided", "seconds"}
    ] * 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda plain: plain.pop("rules"),
        lambda plain: plain.update(schema=99),
        lambda plain: plain["rules"][0].update(verdicts="P1 X1"),
        lambda plain: plain["rules"][0].update(left="nan"),
        lambda plain: plain["rules"][0].pop("counterexamples"),
    ],
)
def test_a_damaged_certificate_is_refused(certified: tuple, tmp_path, damage) -> None:
    plain = certified[1].to_plain()
    damage(plain)
    (tmp_path / "c.json").write_text(json.dumps(plain))
    with pytest.raises(CertificateError):
        Certificate.load(tmp_path / "c.json")
