"""A posterior is draws: what it says about them must equal the same count made by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from tests.compiling import compilations

from prbnn import MLP, AtLeast, AtMost, Gaussian, Increasing
from prbnn.data.columns import Columns
from prbnn.data.scaling import scaling_of
from prbnn.model.weights import flatten
from prbnn.posterior.checks import CHECK_POINTS
from prbnn.posterior.chunks import CHUNK_ROWS
from prbnn.posterior.draws import Posterior
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE

DRAWS = 90
ROUNDING = 2e-5  # float32, in standard deviations of an output
LEVELS = (0.05, 0.5, 0.9)


def posterior_of(noise: float | str = "learned", outputs: int = 2, seed: int = 0) -> Posterior:
    """Draws around a random network on a table whose columns have their own units."""
    generator = np.random.default_rng(seed)
    rows = generator.uniform([0.0, 100.0], [1.0, 300.0], size=(30, 2))
    targets = np.column_stack([5 + rows[:, 0], rows[:, 1] * 40])[:, :outputs]
    targets = targets + generator.normal(size=targets.shape)
    scaling = scaling_of(rows, targets)
    likelihood = Gaussian(noise)
    network = MLP((8,), "tanh").build(jax.random.key(seed), 2, likelihood.network_outputs(outputs))
    centre = np.asarray(flatten(network))
    draws = centre + 0.3 * generator.normal(size=(DRAWS, centre.size))
    return Posterior(
        network=network,
        draws=draws.astype(np.float32),
        likelihood=likelihood,
        likelihood_parameters=jnp.asarray(likelihood.start(scaling.output_scale, targets), float),
        scaling=scaling,
        columns=Columns(("dose", "wind"), ("up", "down")[:outputs], rows, targets),
    )


@pytest.fixture(scope="module", params=["learned", "by input"])
def posterior(request: pytest.FixtureRequest) -> Posterior:
    return posterior_of(request.param)


@pytest.fixture(scope="module")
def single() -> Posterior:
    return posterior_of(outputs=1)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(1).uniform([-0.5, 50.0], [1.5, 350.0], size=(CHUNK_ROWS + 44, 2))


def noise_by_hand(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """Noise of every draw at every row, one draw after another, in the user's units."""
    inputs = posterior.scaling.inputs(rows)
    values = np.array(
        [
            [network_output(posterior, draw, x) for x in inputs]
            for draw in np.asarray(posterior.draws, float)
        ]
    )
    own = posterior.likelihood_parameters[0]
    _, noise = posterior.likelihood.split(own, jnp.asarray(values, float))
    return np.asarray(noise) * posterior.scaling.output_scale


def network_output(posterior: Posterior, draw: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One hidden layer of tanh, written out."""
    first, last = posterior.network.layers
    sizes = [first.weight.size, first.bias.size, last.weight.size, last.bias.size]
    pieces = np.split(draw, np.cumsum(sizes)[:-1])
    hidden = np.tanh(pieces[0].reshape(first.weight.shape) @ x + pieces[1])
    return pieces[2].reshape(last.weight.shape) @ hidden + pieces[3]


def functions_by_hand(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    outputs = len(posterior.columns.outputs)
    inputs = posterior.scaling.inputs(rows)
    values = [
        [network_output(posterior, draw, x)[:outputs] for x in inputs]
        for draw in np.asarray(posterior.draws, float)
    ]
    return np.array(values) * posterior.scaling.output_scale + posterior.scaling.output_shift


def assert_close(found: np.ndarray, wanted: np.ndarray, posterior: Posterior) -> None:
    assert found.shape == wanted.shape
    assert np.all(np.abs(found - wanted) < ROUNDING * posterior.scaling.output_sd)


def checked_points(
    posterior: Posterior, rule, count: int = 2 * CHECK_POINTS, seed: int = 1
) -> np.ndarray:
    """The points at which a rule over several inputs is checked, in the user's units."""
    (group,) = posterior.bind([rule], count, seed).groups
    scaling = posterior.scaling
    return np.asarray(group.points, float) * scaling.input_scale + scaling.input_shift


def test_functions_are_the_networks_of_the_draws(posterior: Posterior, rows: np.ndarray) -> None:
    few = rows[:5]
    assert_close(posterior.functions(few), functions_by_hand(posterior, few), posterior)


def test_moments_are_those_of_the_functions(posterior: Posterior, rows: np.ndarray) -> None:
    functions = posterior.functions(rows)
    prediction = posterior.predict(rows)
    assert functions.shape == (DRAWS, len(rows), 2)
    assert_close(prediction.mean, functions.mean(axis=0), posterior)
    assert_close(prediction.epistemic, functions.std(axis=0), posterior)


def test_noise_is_the_root_of_the_mean_square_over_draws(
    posterior: Posterior, rows: np.ndarray
) -> None:
    few = rows[:4]
    noise = noise_by_hand(posterior, few)
    prediction = posterior.predict(few)
    assert_close(prediction.aleatoric, np.sqrt(np.mean(noise**2, axis=0)), posterior)
    assert_close(prediction.total, np.hypot(prediction.epistemic, prediction.aleatoric), posterior)


def test_noise_is_in_the_users_units() -> None:
    assert np.allclose(posterior_of(0.25).noise, 0.25)
    learned = posterior_of("learned")
    assert np.allclose(learned.noise, 0.3 * learned.scaling.output_sd)
    assert np.all(np.isnan(posterior_of("by input").noise))


def test_quantiles_of_functions_are_those_of_numpy(posterior: Posterior, rows: np.ndarray) -> None:
    found = posterior.quantiles(rows, LEVELS, noise=False)
    assert_close(found, np.quantile(posterior.functions(rows), LEVELS, axis=0), posterior)


def test_quantiles_solve_the_mixtures_distribution(posterior: Posterior, rows: np.ndarray) -> None:
    few = rows[:4]
    found = posterior.quantiles(few, LEVELS)
    functions, noise = posterior.functions(few), noise_by_hand(posterior, few)
    for level, quantile in zip(LEVELS, found, strict=True):
        fraction = np.mean(norm.cdf(quantile, functions, noise), axis=0)
        assert np.allclose(fraction, level, atol=1e-4)


def test_quantiles_split_samples_by_their_levels(posterior: Posterior, rows: np.ndarray) -> None:
    """Brute force: the fraction of new observations below each, within four standard errors.

    Each seed adds one observation per draw, so the draws' own spread adds nothing to the error.
    """
    few, seeds = rows[:4], 200
    samples = np.concatenate([posterior.samples(few, seed) for seed in range(seeds)])
    for level, quantile in zip(LEVELS, posterior.quantiles(few, LEVELS), strict=True):
        fraction = np.mean(samples < quantile, axis=0)
        error = np.sqrt(level * (1 - level) / len(samples))
        assert np.all(np.abs(fraction - level) < 4 * error)


def test_quantiles_rise_with_their_levels(posterior: Posterior, rows: np.ndarray) -> None:
    for noise in (True, False):
        found = posterior.quantiles(rows, (0.01, 0.5, 0.99), noise=noise)
        assert np.all(np.diff(found, axis=0) >= 0)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 5.0, np.nan])
def test_levels_outside_zero_and_one_are_refused(posterior: Posterior, level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        posterior.quantiles(np.zeros((1, 2)), [0.5, level])


def test_samples_are_functions_with_noise(single: Posterior, rows: np.ndarray) -> None:
    residuals = single.samples(rows, 3) - single.functions(rows)
    size = residuals.size
    assert abs(residuals.mean()) < 4 * single.noise[0] / np.sqrt(size)
    assert abs(residuals.std() / single.noise[0] - 1) < 4 / np.sqrt(2 * size)
    assert np.array_equal(single.samples(rows, 3), single.samples(rows, 3))
    assert not np.array_equal(single.samples(rows, 3), single.samples(rows, 4))


@pytest.mark.parametrize("cuts", [[1], [CHUNK_ROWS], [7, 100, 280], list(range(3, 300, 41))])
def test_every_row_has_the_same_bits_however_rows_are_split(
    posterior: Posterior, rows: np.ndarray, cuts: list[int]
) -> None:
    parts = np.split(rows, cuts)
    whole = posterior.predict(rows)
    for name in ("mean", "epistemic", "aleatoric"):
        pieces = [getattr(posterior.predict(part), name) for part in parts]
        assert np.array_equal(np.concatenate(pieces), getattr(whole, name))
    for noise in (True, False):
        pieces = [posterior.quantiles(part, LEVELS, noise=noise) for part in parts]
        together = posterior.quantiles(rows, LEVELS, noise=noise)
        assert np.array_equal(np.concatenate(pieces, axis=1), together)
    pieces = [posterior.functions(part) for part in parts]
    assert np.array_equal(np.concatenate(pieces, axis=1), posterior.functions(rows))


def test_another_number_of_rows_or_kept_draws_compiles_nothing(
    single: Posterior, rows: np.ndarray
) -> None:
    single.predict(rows[:10])
    single.take(np.arange(20)).joined(single)
    with compilations() as names:
        single.predict(rows[:11])
        single.take(np.arange(21)).joined(single)
        single.take(np.arange(DRAWS) % 3 == 0)
    assert names == []


@pytest.fixture(scope="module")
def floor(single: Posterior) -> AtLeast:
    """A floor that about half of the draws break somewhere."""
    rule = AtLeast(0, where={"dose": (0, 1)})
    lowest = single.functions(checked_points(single, rule))[..., 0].min(axis=1)
    return AtLeast(float(np.median(lowest)), name="floor", where={"dose": (0, 1)})


def scores_by_hand(
    posterior: Posterior, rule: AtLeast, count: int = 2 * CHECK_POINTS, seed: int = 1
) -> np.ndarray:
    """(draws, points), in standard deviations of the target."""
    values = posterior.functions(checked_points(posterior, rule, count, seed))[..., 0]
    return (values - rule.bound) / posterior.scaling.output_sd[0]


def test_check_has_the_worst_score_and_the_mean_violation(
    single: Posterior, floor: AtLeast
) -> None:
    check = single.check([floor])
    scores = scores_by_hand(single, floor)
    assert np.allclose(check.worst[:, 0], scores.min(axis=1), atol=1e-4)
    assert np.allclose(check.f[:, 0], np.minimum(scores, 0).mean(axis=1), atol=1e-4)


def test_condition_keeps_exactly_the_draws_that_obey(single: Posterior, floor: AtLeast) -> None:
    worst = [scores_by_hand(single, floor, seed=seed).min(axis=1) for seed in (1, 2, 3)]
    obeys = np.min(worst, axis=0) >= -CHECK_TOLERANCE
    kept, fraction = single.condition([floor])
    assert 0 < obeys.sum() < DRAWS
    assert np.array_equal(kept.draws, np.asarray(single.draws)[obeys])
    assert fraction == pytest.approx(obeys.mean())
    assert not kept.check([floor]).broken().any()


@pytest.mark.parametrize(("shortfall", "kept"), [(0.5, True), (2.0, False)])
def test_a_draw_may_fall_short_by_the_check_tolerance_and_no_more(
    single: Posterior, floor: AtLeast, shortfall: float, kept: bool
) -> None:
    """``shortfall`` is in tolerances; the bound is moved to just above one draw's lowest point."""
    lowest = single.functions(checked_points(single, floor))[..., 0].min(axis=1)
    chosen = int(np.argsort(lowest)[DRAWS // 2])
    move = shortfall * CHECK_TOLERANCE * single.scaling.output_sd[0]
    moved = AtLeast(float(lowest[chosen] + move), where=floor.where)
    assert single.check([moved]).obeys()[chosen] == kept


def test_condition_on_two_rules_keeps_what_both_keep(single: Posterior, floor: AtLeast) -> None:
    rising = Increasing("dose", where={"dose": (0, 0.2)})
    both, _ = single.condition([floor, rising])
    in_turn = single.condition([floor])[0].condition([rising])[0]
    assert 0 < len(both) < len(single.condition([floor])[0])
    assert np.array_equal(both.draws, in_turn.draws)


def test_a_wider_tolerance_keeps_more(single: Posterior, floor: AtLeast) -> None:
    scores = scores_by_hand(single, floor).min(axis=1)
    kept, _ = single.condition([floor], tolerance=0.2)
    assert len(kept) == np.sum(scores >= -0.2) > np.sum(scores >= -CHECK_TOLERANCE)


def test_nothing_is_left_of_nothing(single: Posterior, floor: AtLeast) -> None:
    impossible = AtLeast(1e6, where=floor.where)
    none, fraction = single.condition([impossible])
    assert (len(none), fraction) == (0, 0)
    assert len(none.condition([floor])[0]) == 0
    assert none.joined(single).draws.shape == single.draws.shape


def test_without_rules_every_draw_obeys(single: Posterior) -> None:
    kept, fraction = single.condition([])
    assert fraction == 1
    assert np.array_equal(kept.draws, single.draws)
    assert single.check([]).worst.shape == (DRAWS, 0)
    assert single.breaks_of_mean([]).shape == (0,)


def test_a_safety_margin_is_for_training_not_for_checking(
    single: Posterior, floor: AtLeast
) -> None:
    careful = AtLeast(floor.bound, where=floor.where, margin=100.0)
    assert np.array_equal(single.check([careful]).worst, single.check([floor]).worst)


def test_take_and_joined_keep_draws_in_order(single: Posterior, rows: np.ndarray) -> None:
    mask = np.arange(DRAWS) % 2 == 0
    even, odd = single.take(mask), single.take(np.flatnonzero(~mask))
    assert (len(even), len(odd)) == (45, 45)
    both = even.joined(odd)
    order = np.r_[np.flatnonzero(mask), np.flatnonzero(~mask)]
    assert np.array_equal(both.draws, np.asarray(single.draws)[order])
    assert_close(both.predict(rows).mean, single.predict(rows).mean, single)
    assert len(single) == DRAWS


@pytest.mark.parametrize("points", [64, 1024])
def test_breaks_of_the_mean_are_counted_point_by_point(
    single: Posterior, floor: AtLeast, points: int
) -> None:
    mean = single.predict(checked_points(single, floor, points)).mean[:, 0]
    bounds = np.quantile(mean, [0.0, 0.3, 1.0]) + np.array([-1.0, 0.0, 1.0])
    low, middle, high = (AtLeast(float(b), where=floor.where) for b in bounds)
    wanted = int(np.sum(mean < bounds[1] - CHECK_TOLERANCE * single.scaling.output_sd[0]))
    assert 0 < wanted < points
    found = single.breaks_of_mean([low, middle, high], points)
    assert found.tolist() == [0, wanted, points]


def test_the_mean_of_draws_that_obey_a_bound_obeys_it(single: Posterior, floor: AtLeast) -> None:
    ceiling = AtMost(float(single.functions(single.columns.rows).max()) + 50, where=floor.where)
    kept, _ = single.condition([floor, ceiling])
    assert kept.breaks_of_mean([floor, ceiling]).tolist() == [0, 0]


def test_rules_see_the_output_they_name() -> None:
    posterior = posterior_of()
    for place, name in enumerate(posterior.columns.outputs):
        rule = AtLeast(0, of=name)
        values = posterior.functions(checked_points(posterior, rule))[..., place]
        worst = values.min(axis=1) / posterior.scaling.output_sd[place]
        assert np.allclose(posterior.check([rule]).worst[:, 0], worst, atol=1e-3)
