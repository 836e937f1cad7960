"""What a regressor takes: several outputs, noises, weights, networks, scalings, temperings."""

from __future__ import annotations

import importlib
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from prbnn import (
    NUTS,
    AtMost,
    BayesByBackprop,
    DataError,
    Gaussian,
    Increasing,
    LayerNormal,
    PRBNNRegressor,
    StudentT,
)
from tests.estimators.problems import ROWS, Table, small, table_of
from tests.marks import quick

# short fits say that their budget was spent, and are right
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def several(table: Table) -> PRBNNRegressor:
    """power and a loss that falls as it rises, with a rule on one and on their sum."""
    targets = pandas.DataFrame({"power": table.target, "loss": 3 - 2 * table.target})
    rules = [
        Increasing("dose", of="power"),
        AtMost(10, of="power + loss"),
    ]
    return small(rules, steps=600).fit(table.pandas[0], targets)


def test_several_outputs_keep_their_columns(several: PRBNNRegressor, table: Table) -> None:
    inputs, target = table.pandas
    targets = np.column_stack([target, 3 - 2 * target])
    mean, std = several.predict(inputs, return_std=True)
    assert mean.shape == std.shape == (ROWS, 2)
    assert np.sqrt(np.mean((mean - targets) ** 2, axis=0)) == pytest.approx([0.0, 0.0], abs=0.3)
    assert several.score(inputs, targets) > 0.8
    assert several.output_names_ == ("power", "loss")
    assert several.noise_.shape == (2,)
    assert several.predict_quantiles(inputs).shape == (3, ROWS, 2)
    assert several.sample_functions(inputs).shape == (50, ROWS, 2)


def test_rules_on_several_outputs_hold_for_every_stored_draw(several: PRBNNRegressor) -> None:
    labels = [line.name for line in several.knowledge_report_]
    assert labels == ["power rises with dose", "power + loss <= 10"]
    assert [line.stored_share for line in several.knowledge_report_] == [0, 0]


def test_output_names_may_be_given(several: PRBNNRegressor, table: Table) -> None:
    targets = np.column_stack([table.target, 3 - 2 * table.target])
    model = clone(several).set_params(output_names=["power", "loss"])
    model.fit(table.pandas[0], targets)
    assert model.output_names_ == ("power", "loss")
    assert np.array_equal(model.predict(table.inputs), several.predict(table.inputs))


def test_a_stated_noise_is_kept(table: Table) -> None:
    model = small(noise=0.07).fit(table.inputs, table.target)
    assert model.noise_ == pytest.approx(0.07, rel=1e-5)
    assert np.allclose(model.predict_all(table.inputs).aleatoric, 0.07, rtol=1e-5)


def test_a_likelihood_may_be_given_in_place_of_a_noise(plain: PRBNNRegressor, table: Table) -> None:
    model = small(likelihood=Gaussian()).fit(table.inputs, table.target)
    assert np.array_equal(model.predict(table.inputs), plain.predict(table.inputs))
    assert clone(model).likelihood == Gaussian()


def test_a_collapse_is_told_only_where_variance_tells(table: Table) -> None:
    """Tails so heavy that the fit leaves most of the variance to outliers, and is right."""
    target = table.target + np.where(np.arange(ROWS) % 10 == 0, 30.0, 0.0)
    model = small(likelihood=StudentT(freedom=2.5), scaling="standard", steps=6000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.inputs, target)
    assert model.score(table.inputs, target) < 0.05


def test_a_learned_noise_comes_near_the_truth() -> None:
    quiet = table_of(rows=ROWS)
    loud = Table(quiet.inputs, quiet.target + np.random.default_rng(5).normal(0, 0.4, ROWS))
    found = [small(steps=1500).fit(t.inputs, t.target).noise_ for t in (quiet, loud)]
    assert 0.03 < found[0] < 0.1
    assert 0.25 < found[1] < 0.6


def test_noise_by_input_rises_where_it_should() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.uniform(-1, 1, size=(200, 1))
    truth = np.where(inputs[:, 0] > 0, 0.5, 0.05)
    target = inputs[:, 0] + generator.normal(0, truth)
    model = small(noise="by input", steps=3000).fit(inputs, target)
    left, right = model.predict_all([[-0.7], [0.7]]).aleatoric.ravel()
    assert left < 0.15
    assert 0.3 < right < 0.8
    assert np.isnan(model.noise_)


def test_a_row_of_no_weight_is_no_row(table: Table) -> None:
    weight = np.ones(ROWS)
    weight[::5] = 0
    with_zeros = small().fit(table.inputs, table.target, sample_weight=weight)
    kept = weight > 0
    without = small().fit(table.inputs[kept], table.target[kept])
    assert np.array_equal(with_zeros.predict(table.inputs), without.predict(table.inputs))


@pytest.mark.parametrize("scaling", ["standard", "minmax", "none"])
def test_whole_weights_are_repeated_rows(table: Table, scaling: str) -> None:
    """To the last bit, and whatever the order: they are the same problem."""
    generator = np.random.default_rng(2)
    weight = generator.integers(1, 4, ROWS)
    model = small(scaling=scaling, steps=100, knowledge=[Increasing("x0").soft(0.1)])
    weighed = model.fit(table.inputs, table.target, sample_weight=weight).predict(table.inputs)
    order = generator.permutation(np.repeat(np.arange(ROWS), weight))
    repeated = model.fit(table.inputs[order], table.target[order]).predict(table.inputs)
    assert np.array_equal(weighed, repeated)


@pytest.mark.parametrize("rows", [ROWS, 20])
def test_the_tempering_is_chosen_alike_for_weights_and_repeated_rows(
    table: Table, rows: int, monkeypatch
) -> None:
    """Folds are made of rows that differ: copies are held out together."""
    tempering = importlib.import_module("prbnn.fitting.tempering")
    monkeypatch.setattr(tempering, "STEPS", 20)
    inputs, target = table.inputs[:rows], table.target[:rows]
    weight = np.full(rows, 2)
    model = small(tempering="auto", steps=20)
    weighed = model.fit(inputs, target, sample_weight=weight).tempering_choice_
    assert (
        model.fit(np.repeat(inputs, 2, axis=0), np.repeat(target, 2)).tempering_choice_ == weighed
    )
    assert bool(weighed.scores) == (rows >= tempering.FEWEST_ROWS)


@pytest.mark.parametrize("inference", quick(["bbb", NUTS(chains=2, keep=20, doublings=3)], "bbb"))
def test_the_order_of_rows_changes_nothing(table: Table, inference) -> None:
    order = np.random.default_rng(3).permutation(ROWS)
    rules = [Increasing("x0", of="y + x1").soft(0.1)]
    model = small(knowledge=rules, inference=inference, steps=40, draws=20)
    weight = np.linspace(0.5, 1.5, ROWS)
    first = model.fit(table.inputs, table.target, sample_weight=weight).predict(table.inputs)
    again = model.fit(table.inputs[order], table.target[order], sample_weight=weight[order])
    assert np.array_equal(again.predict(table.inputs), first)


def test_heavier_rows_pull_the_fit(table: Table) -> None:
    """Two lines over the same rows: the one that weighs a hundred times more wins."""
    inputs = np.concatenate([table.inputs[:20], table.inputs[:20]])
    target = np.concatenate([table.inputs[:20, 0], -table.inputs[:20, 0]])
    weight = np.repeat([1.0, 0.01], 20)
    for sign, heavy in ((1, weight), (-1, weight[::-1])):
        model = small(steps=3000).fit(inputs, target, sample_weight=heavy)
        assert sign * model.predict([[0.9, 0.5]])[0] > 0.5


class Wave(eqx.Module):
    """A user's network: a line in the sines of the inputs."""

    weight: jax.Array
    bias: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.weight @ jnp.sin(x) + self.bias


def wave(key: jax.Array, inputs: int, outputs: int) -> Wave:
    return Wave(jax.random.normal(key, (outputs, inputs)), jnp.zeros(outputs))


def test_a_network_may_be_a_factory_of_the_users(table: Table) -> None:
    model = small(network=wave, steps=600).fit(table.inputs, table.target)
    assert isinstance(model.posterior_.network, Wave)
    assert model.score(table.inputs, table.target) > 0.8


@pytest.mark.parametrize("scaling", ["standard", "minmax"])
@pytest.mark.parametrize("rows", [41, 47])
def test_a_constant_column_may_move_a_little_afterwards(rows: int, scaling: str) -> None:
    """The standard deviation of 41 times 0.1 is 3e-17, not 0: dividing by it would explode."""
    table = table_of(rows=rows)
    table.inputs[:, 1] = 0.1
    model = small(scaling=scaling).fit(table.inputs, table.target)
    before, after = model.predict([[0.5, 0.1], [0.5, 0.101]])
    assert abs(after - before) < 0.05


@pytest.mark.parametrize("scaling", ["standard", "minmax", "none"])
def test_every_scaling_answers_in_the_users_units(table: Table, scaling: str) -> None:
    model = small(scaling=scaling, steps=600).fit(table.inputs, table.target)
    assert model.score(table.inputs, table.target) > 0.9


def test_units_of_the_columns_make_no_difference(plain: PRBNNRegressor, table: Table) -> None:
    """Scaled inside: kilometres or millimetres, the same function."""
    model = small().fit(table.inputs * 1e6 + 5e6, table.target * 1e-3 - 7)
    found = (model.predict(table.inputs * 1e6 + 5e6) + 7) * 1e3
    assert np.allclose(found, plain.predict(table.inputs), atol=1e-3)


def test_minibatches_prior_and_engine_options_are_used(table: Table) -> None:
    model = small(batch_size=16, prior=LayerNormal(2.0), inference=BayesByBackprop(3, 0.02))
    assert model.fit(table.inputs, table.target).score(table.inputs, table.target) > 0.5


def test_tempering_is_chosen_by_held_out_score_where_rows_suffice(table: Table) -> None:
    few = small(tempering="auto").fit(table.inputs[:28], table.target[:28])
    assert few.tempering_ == 0.2
    assert few.tempering_choice_.scores == {}
    model = small(tempering="auto").fit(table.inputs, table.target)
    scores = model.tempering_choice_.scores
    assert model.tempering_ == model.tempering_choice_.value
    assert model.tempering_ in scores
    assert scores[model.tempering_] > max(scores.values()) - 0.5


def test_a_prediction_that_overflows_is_refused(table: Table) -> None:
    """Of a network of one's own: the input is far, but not beyond what can be held."""

    def exponential(key, inputs: int, outputs: int) -> Wave:
        return Steep(jax.random.normal(key, (outputs, inputs)), jnp.zeros(outputs))

    model = small(network=exponential, steps=5).fit(table.inputs, table.target)
    assert np.isfinite(model.predict(table.inputs)).all()
    rows = np.r_[table.inputs, [[0.5, 1e6]]]
    with pytest.raises(DataError, match=rf"prediction at row {ROWS} .*column 'x1' is 1e\+06"):
        model.predict(rows)


class Steep(Wave):
    """A user's network that overflows far from the data."""

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.weight @ jnp.exp(jnp.abs(x)) + self.bias
