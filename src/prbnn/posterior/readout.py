"""The nearest trajectories that obey: reach for this where draws over sequences are moved.

Only the last layer of the network moves, which is linear, so each draw is a convex quadratic program with
cutting planes, as in `prbnn.posterior.nearest`, and with the same distance. A trajectory has outputs by
the dozen, and the last layer a row of weights for each. Rules along time look at a sequence's own
trajectory and nowhere else, and that keeps the programs small:

- the recurrent part is evaluated once per draw and sequence: only its last state h enters
- a cut is an outer product, the slope in the outputs times h, and is stored as these two vectors
- the rows of the layer share S = sum over training sequences of h h^T. In the axes that make S
  diagonal the distance is a sum of squares, whatever the noise of each output

Noise that varies from sequence to sequence counts by its mean precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from prbnn.data.columns import Columns
from prbnn.data.scaling import Scaling
from prbnn.errors import KnowledgeError
from prbnn.model.likelihoods import Likelihood
from prbnn.model.weights import named_leaves
from prbnn.posterior.checks import CHECK_SEQUENCES
from prbnn.posterior.chunks import DrawnModel
from prbnn.posterior.draws import Posterior
from prbnn.posterior.keeping import Keeping, Unkept
from prbnn.posterior.prediction import network_inputs
from prbnn.posterior.projection import (
    Projected,
    distances,
    is_done,
    measured_rows,
    projected_from,
)
from prbnn.posterior.projection import deviations as deviations_of
from prbnn.rules.base import Rule, naming
from prbnn.rules.regions import Sampling, sample
from prbnn.rules.scoring.drawn import Drawn, Frame, frame_of
from prbnn.rules.scoring.families import Group
from prbnn.rules.scoring.obedience import CHECK_TOLERANCE, breaks, lowest, trainable
from prbnn.system.named_arrays import below, from_arrays, to_arrays, under
from prbnn.system.process import computing, one_blas_thread, side_by_side

# how far inside its limit a score must be where a draw is moved, in the rule's unit, by pass over fresh
# sequences; and what counts as broken. A draw that a second pass finds broken will be broken elsewhere,
# too: later passes ask for more than the rule itself
INSIDE = (0.5 * CHECK_TOLERANCE, 1e-2, *[2e-2] * 6)
ALLOWED = (-CHECK_TOLERANCE, -CHECK_TOLERANCE, *[1e-2] * 6)
# sequences per pass, and draws per call of the compiled program; the last call repeats some
PASS_SEQUENCES = 2 * CHECK_SEQUENCES
BLOCK = 8
# draws that are moved before the others: where none of them can be, the rules are at fault
FIRST = 32
# cuts of one program, how many of them a round of solving may replace, and rounds per pass
CUTS, FRESH, ROUNDS = 160, 32, 40
# sweeps of coordinate descent over the multipliers, at most, and the change of a score that ends them
SWEEPS, SETTLED = 40, 1e-5
# a score above this, in the rule's unit, is no cut
FAR = 1e3
# seeds of a pass's sequences come after those of the dense check, which must not know them
LATER = 50
INSTEAD = 'use enforce="pressure"'


class Axes(NamedTuple):
    """Where a draw's distance is a sum of squares: 1/2 sum over outputs o and axes k of z^2 / give.

    ``turn`` takes the last hidden values (and 1, for the biases) to the axes, and moves along the axes
    back to weights.
    """

    turn: Float[Any, "hidden axes"]
    give: Float[Any, "outputs axes"]


class OutputCuts(NamedTuple):
    """Inequalities sum over o, k of slope_o hidden_k z_ok >= short, their products, and multipliers."""

    slope: Float[Any, "cuts outputs"]
    hidden: Float[Any, "cuts axes"]
    short: Float[Any, " cuts"]
    product: Float[Any, "cuts cuts"]
    multiplier: Float[Any, " cuts"]


class MovingReadout(NamedTuple):
    """A draw on its way: where it began, how far its last layer has moved along the axes, its cuts."""

    first: Float[Any, " vector"]
    move: Float[Any, "outputs axes"]
    cuts: OutputCuts
    axes: Axes


class _ElsewhereError(Exception):
    """A rule asked for the function at another point than the sequence itself."""


def check_movable(
    network: Any,
    likelihood: Likelihood,
    rules: Sequence[Rule],
    columns: Columns,
    scaling: Scaling,
) -> None:
    """Raise a `KnowledgeError` where the network or a rule does not let draws over sequences move."""
    if not _is_linear(network, len(columns.inputs)):
        raise KnowledgeError(
            "draws over sequences are moved by their network's last layer, and this network's last two "
            f"arrays are not those of a linear layer; use LSTM, GRU or MLP, or {INSTEAD}"
        )
    outputs = likelihood.network_outputs(len(columns.outputs))
    for group in _groups(rules, columns, scaling, 8, 0):
        for place, bound in zip(group.places, group.rules, strict=True):
            alone = Group(group.points, (bound,), (place,))
            try:
                jax.eval_shape(
                    lambda raw, alone=alone: _scores(alone, frame_of(columns, scaling), raw),
                    jnp.zeros((8, outputs)),
                )
            except _ElsewhereError:
                raise KnowledgeError(
                    f"rule {rules[place].label!r}: compares a sequence with others, and draws over "
                    "sequences are moved by rules about each trajectory alone; make it soft, or "
                    f"{INSTEAD}",
                    rule=rules[place].label,
                ) from None


def project(
    posterior: Posterior,
    rules: Sequence[Rule],
    precision: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    seed: int = 1,
    kept: Keeping | None = None,
) -> Projected:
    """As `prbnn.posterior.projection.project`, of draws over sequences that `check_movable` lets pass.

    A draw is moved inside the limit of a rule by the rule's margin, since other sequences differ from
    those where it is moved.
    """
    computing()
    kept = kept or Unkept()
    before = kept.found()
    if before is not None and is_done(before):
        return projected_from(posterior, before)
    states = _start(posterior, np.asarray(precision, float), weight)
    count = len(posterior)
    obeys, broken = np.zeros(count, bool), np.zeros((count, len(rules)), bool)
    # passes over the first draws, then over the others
    done, passes = 0, len(INSIDE)
    if before is not None:
        form = (states.move, states.cuts, obeys, broken)
        move, cuts, obeys, broken = from_arrays(form, below("states", before))
        states, done = states._replace(move=move, cuts=cuts), int(before["passes"])

    def arrays() -> dict[str, np.ndarray]:
        now = to_arrays((states.move, states.cuts, obeys, broken))
        return {**under("states", now), "passes": np.array(done)}

    parts = np.split(np.arange(count), [min(FIRST, count)])
    while done < 2 * passes:
        places, number = parts[done // passes], done % passes
        left = places[~obeys[places]]
        if len(left):
            later = seed + LATER + number
            groups = _groups(rules, posterior.columns, posterior.scaling, PASS_SEQUENCES, later)
            limits = INSIDE[number], ALLOWED[number]
            after, least = _pass(posterior, groups, _taken(states, left), *limits)
            for leaf, value in zip(jax.tree.leaves(states), jax.tree.leaves(after), strict=True):
                leaf[left] = value
            short = breaks(least, -limits[1])
            if number == 0:
                broken[left] = short
            obeys[left] = ~short.any(axis=1)
        done += 1 if len(left) else passes - number
        if done % passes == 0 and not obeys[places].any():
            break
        kept.keep(arrays)
    found = posterior.with_draws(_weights(posterior, states))
    result = Projected(found, obeys, broken, *distances(posterior, found))
    kept.keep(result.arrays, now=True)
    return result


def _is_linear(network: Any, inputs: int) -> bool:
    """Whether the last two arrays of a network are the weights and biases of a layer that comes last."""
    shapes = [leaf.shape for _, leaf in named_leaves(network)][-2:]
    if len(shapes) < 2 or len(shapes[0]) != 2 or shapes[1] != shapes[0][:1]:
        return False
    x = jnp.asarray(np.random.default_rng(0).standard_normal(inputs), float)

    @eqx.filter_jit
    def both(network: Any, x: Array) -> tuple[Array, Array]:
        hidden, layer = _apart(network)
        return network(x), layer @ hidden(x)

    try:
        whole, parts = both(network, x)
    except (TypeError, ValueError):
        return False
    return bool(jnp.allclose(whole, parts, rtol=1e-3, atol=1e-4))


def _apart(network: Any) -> tuple[Callable[[Array], Array], Float[Array, "outputs hidden"]]:
    """The last hidden values (and 1) as a function of an input, and the layer that reads them."""
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    (*others, weight, bias), structure = jax.tree.flatten(arrays)
    # a layer of the identity hands on what it reads
    same = [jnp.eye(weight.shape[1]), jnp.zeros(weight.shape[1])]
    before = eqx.combine(jax.tree.unflatten(structure, [*others, *same]), rest)
    return lambda x: jnp.append(before(x), 1.0), jnp.concatenate([weight, bias[:, None]], axis=1)


def _groups(
    rules: Sequence[Rule], columns: Columns, scaling: Scaling, count: int, seed: int
) -> tuple[Group, ...]:
    """Rules with their margins at ``count`` sequences; rules of one region share theirs."""
    shared: dict[Sampling, list[int]] = {}
    for place, rule in enumerate(rules):
        with naming(rule):
            shared.setdefault(rule.sampling(columns).shared(columns), []).append(place)
    groups = []
    for sampling, places in shared.items():
        with naming(rules[places[0]]):
            points = sample(sampling, columns, count, seed)
        bound = tuple(rules[place].bind(columns, scaling, points) for place in places)
        inputs = jnp.asarray(scaling.inputs(points), float)
        groups.append(Group(inputs, bound, tuple(places)))
    return tuple(groups)


def _scores(
    group: Group, frame: Frame, values: Float[Array, "points outputs"], *, margins: bool = False
) -> list[Float[Array, "points scores"]]:
    """Scores of trajectories at a group's sequences, one array per rule."""
    bound = group.rules if margins else [rule.without_margin() for rule in group.rules]

    def at_point(x: Array, values: Array, knowns: tuple) -> list[Array]:
        def network(point: Array) -> Array:
            if point is not x:
                raise _ElsewhereError
            return values

        function = Drawn(network, frame)
        return [
            jnp.ravel(trainable(rule.score(function, x, known) - rule.margin))
            for rule, known in zip(bound, knowns, strict=True)
        ]

    return jax.vmap(at_point)(group.points, values, tuple(rule.known for rule in group.rules))


@one_blas_thread()
def _start(posterior: Posterior, precision: np.ndarray, weight: np.ndarray | None) -> MovingReadout:
    """Every draw where it is, and its axes."""
    table = posterior.columns.rows
    places = measured_rows(posterior)
    each = np.ones(len(table)) if weight is None else np.asarray(weight, float)
    counts = jnp.asarray(each[places] * each.sum() / max(each[places].sum(), 1e-30), float)
    x = jnp.asarray(network_inputs(table[places], posterior.columns, posterior.scaling), float)
    variance = deviations_of(posterior, table[places]) ** 2
    vectors = posterior.vectors.astype(np.float32)
    turns, gives = [], []
    for start in range(0, len(vectors), BLOCK):
        some = np.arange(start, min(start + BLOCK, len(vectors)))
        at = np.resize(some, BLOCK)
        inverse_variance = jnp.asarray(1 / variance[at], float)
        found = _seen(posterior.model, jnp.asarray(vectors[at]), x, inverse_variance, counts)
        hidden, per_output = (np.asarray(part, np.float64)[: len(some)] for part in found)
        own = _by_row(precision, *per_output.shape[1:], hidden.shape[2]).mean(axis=0)
        scaled = hidden * np.sqrt(np.asarray(counts))[:, None] / np.sqrt(own)
        values, vectors_of = np.linalg.eigh(np.swapaxes(scaled, 1, 2) @ scaled)
        turns.append(vectors_of / np.sqrt(own)[:, None])
        gives.append(1 / (1 + per_output[:, :, None] * np.maximum(values, 0)[:, None, :]))
    axes = Axes(*(np.concatenate(part).astype(np.float32) for part in (turns, gives)))
    draws, outputs, width = axes.give.shape
    cuts = OutputCuts(
        np.zeros((draws, CUTS, outputs), np.float32),
        np.zeros((draws, CUTS, width), np.float32),
        np.full((draws, CUTS), -FAR, np.float32),
        np.zeros((draws, CUTS, CUTS), np.float32),
        np.zeros((draws, CUTS), np.float32),
    )
    return MovingReadout(vectors, np.zeros(axes.give.shape, np.float32), cuts, axes)


@eqx.filter_jit
def _seen(
    model: DrawnModel, vectors: Array, x: Array, inverse_variance: Array, counts: Array
) -> tuple[Array, Array]:
    """Last hidden values (draws, rows, hidden), and the mean precision of each network output."""

    def one(part: tuple[Array, Array]) -> tuple[Array, Array]:
        vector, inverse = part
        network, own = model.parts(vector)
        hidden, layer = _apart(network)

        def response(raw: Array) -> Array:
            return model.likelihood.split(own, raw)[0]

        def at(row: Array, inverse: Array) -> tuple[Array, Array]:
            last = hidden(row)
            return last, inverse @ jax.jacobian(response)(layer @ last) ** 2

        found, precision = jax.vmap(at)(x, inverse)
        return found, counts @ precision / jnp.maximum(jnp.sum(counts), 1e-30)

    return jax.lax.map(one, (vectors, inverse_variance))


def _by_row(vector: np.ndarray, outputs: int, hidden: int) -> np.ndarray:
    """The entries of the last layer of a vector (..., weights) as (..., outputs, hidden), biases last."""
    weights, biases = np.split(vector[..., -outputs * hidden :], [outputs * (hidden - 1)], axis=-1)
    table = weights.reshape(*weights.shape[:-1], outputs, hidden - 1)
    return np.concatenate([table, biases[..., None]], axis=-1)


def _weights(posterior: Posterior, states: MovingReadout) -> np.ndarray:
    """All draws; those that did not move bit for bit."""
    after = np.array(posterior.draws)
    shifted = np.flatnonzero(np.any(states.move != 0, axis=(1, 2)))
    move = states.move[shifted] @ np.swapaxes(states.axes.turn[shifted], 1, 2)
    draws, outputs, hidden = move.shape
    weights = move[:, :, :-1].reshape(draws, outputs * (hidden - 1))
    flat = np.concatenate([weights, move[:, :, -1]], axis=1)
    after[shifted, after.shape[1] - flat.shape[1] :] += flat.astype(after.dtype)
    return after


def _pass(
    posterior: Posterior,
    groups: tuple[Group, ...],
    states: MovingReadout,
    inside: float,
    allowed: float,
) -> tuple[MovingReadout, np.ndarray]:
    """Draws after one pass over the sequences, and the least score of each rule before it."""
    frame = frame_of(posterior.columns, posterior.scaling)
    limits = jnp.asarray(inside), jnp.asarray(allowed)

    def one(some: np.ndarray) -> tuple:
        given = jax.tree.map(jnp.asarray, _taken(states, np.resize(some, BLOCK)))
        found = _moved(posterior.model, groups, frame, given, *limits)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(some)], found)

    count = len(states.first)
    blocks = [np.arange(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    parts = side_by_side(one, blocks)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _taken(states: MovingReadout, places: np.ndarray) -> MovingReadout:
    return jax.tree.map(lambda leaf: leaf[places], states)


@eqx.filter_jit
def _moved(
    model: DrawnModel,
    groups: tuple[Group, ...],
    frame: Frame,
    draws: MovingReadout,
    inside: Array,
    allowed: Array,
) -> tuple[MovingReadout, Float[Array, "draws rules"]]:
    """Draws after a pass: one that no rule finds below ``allowed`` stays where it is."""
    return jax.lax.map(lambda draw: _through(model, groups, frame, draw, inside, allowed), draws)


def _through(
    model: DrawnModel,
    groups: tuple[Group, ...],
    frame: Frame,
    draw: MovingReadout,
    inside: Array,
    allowed: Array,
) -> tuple[MovingReadout, Array]:
    """A draw after a pass, and the least scores before; where it moves, margins count."""
    network, own = model.parts(draw.first)
    hidden, layer = _apart(network)
    axes = draw.axes
    last = [jax.vmap(hidden)(group.points) for group in groups]
    began = [values @ layer.T for values in last]
    turned = [values @ axes.turn for values in last]

    def scores(group: Group, raw: Array, *, margins: bool = True) -> list[Array]:
        response = jax.vmap(lambda raw: model.likelihood.split(own, raw)[0])(raw)
        return _scores(group, frame, response, margins=margins)

    def by_point(move: Array) -> list[Float[Array, "points scores"]]:
        return [
            jnp.concatenate(scores(group, began[number] + turned[number] @ move.T), axis=1)
            for number, group in enumerate(groups)
        ]

    def fresh(number: int, move: Array, now: Array) -> tuple[Array, ...]:
        """Slopes, hidden values and shortfalls of the worst scores at a group's sequences."""
        points, components = _worst(now, max(1, FRESH // len(groups)))

        def look(point: Array, component: Array) -> tuple[Array, ...]:
            here = turned[number][point]
            alone = _at_one(groups[number], point)

            def at(raw: Array) -> Array:
                return jnp.concatenate(scores(alone, raw[None]), axis=1)[0, component]

            value, slope = jax.value_and_grad(at)(began[number][point] + move @ here)
            slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
            return slope, here, inside - value + slope @ (move @ here)

        return jax.vmap(look)(points, components)

    def again(state: tuple) -> tuple:
        number, move, cuts, now = state
        found = [fresh(place, move, found) for place, found in enumerate(now)]
        joined = [jnp.concatenate(parts) for parts in zip(*found, strict=True)]
        cuts = _joined(cuts, move, axes.give, *joined)
        multiplier = _multipliers(cuts.product, cuts.short, cuts.multiplier)
        move = axes.give * ((cuts.slope * multiplier[:, None]).T @ cuts.hidden)
        return number + 1, move, cuts._replace(multiplier=multiplier), by_point(move)

    least = jnp.zeros(sum(len(group.places) for group in groups))
    for number, group in enumerate(groups):
        found = scores(group, began[number] + turned[number] @ draw.move.T, margins=False)
        least = least.at[np.array(group.places)].set(jnp.stack([lowest(part) for part in found]))
    broken = jnp.min(least) < allowed

    def unfinished(state: tuple) -> Array:
        number, _, _, now = state
        short = jnp.min(jnp.stack([jnp.min(scores) for scores in now])) < allowed
        return broken & short & (number < ROUNDS)

    state = (jnp.asarray(0), draw.move, draw.cuts, by_point(draw.move))
    _, move, cuts, _ = jax.lax.while_loop(unfinished, again, state)
    return draw._replace(move=move, cuts=cuts), least


def _at_one(group: Group, point: Array) -> Group:
    """The group at one of its sequences."""

    def by_point(group: Group) -> tuple:
        return group.points, *(rule.known for rule in group.rules)

    one = jax.tree.map(lambda leaf: leaf[point][None], by_point(group))
    return eqx.tree_at(by_point, group, one)


def _worst(now: Float[Array, "points scores"], wanted: int) -> tuple[Array, Array]:
    """Points and components of ``wanted`` low scores: of each component the worst of several parts."""
    points, components = now.shape
    parts = min(points, max(1, wanted // components))
    size = -(-points // parts)
    filled = jnp.pad(now, ((0, parts * size - points), (0, 0)), constant_values=jnp.inf)
    filled = filled.reshape(parts, size, components)
    place = jnp.argmin(filled, axis=1)
    value = jnp.take_along_axis(filled, place[:, None], axis=1)[:, 0]
    point = jnp.minimum(place + np.arange(parts)[:, None] * size, points - 1)
    _, chosen = jax.lax.top_k(-value.ravel(), min(wanted, parts * components))
    return point.ravel()[chosen], chosen % components


def _joined(
    cuts: OutputCuts, move: Array, give: Array, slope: Array, hidden: Array, short: Array
) -> OutputCuts:
    """The cuts known, without those that are met by the most, and fresh ones."""
    count = len(short)
    met = jnp.sum(cuts.slope * (cuts.hidden @ move.T), axis=1)
    slack = met - cuts.short - FAR * (cuts.multiplier > 0)
    _, kept = jax.lax.top_k(-slack, CUTS - count)
    slopes = jnp.concatenate([cuts.slope[kept], slope])
    lasts = jnp.concatenate([cuts.hidden[kept], hidden])

    def products(slope: Array, hidden: Array) -> Array:
        """sum over o, k of slope_o slopes_o give_ok hidden_k lasts_k, with every cut."""
        return jnp.sum(((slope * slopes) @ give) * hidden * lasts, axis=1)

    new = jax.lax.map(lambda part: products(*part), (slope, hidden))
    old = cuts.product[kept][:, kept]
    product = jnp.block([[old, new[:, : CUTS - count].T], [new]])
    return OutputCuts(
        slopes,
        lasts,
        jnp.concatenate([cuts.short[kept], short]),
        product,
        jnp.concatenate([cuts.multiplier[kept], jnp.zeros(count)]),
    )


def _multipliers(
    matrix: Float[Array, "n n"], short: Float[Array, " n"], first: Float[Array, " n"]
) -> Float[Array, " n"]:
    """min over m >= 0 of 1/2 m^T matrix m - short^T m, by coordinate descent from ``first``."""
    diagonal = jnp.diag(matrix)
    diagonal = diagonal + 1e-6 * jnp.max(diagonal) + 1e-30

    def one(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        multiplier, most = state
        change = (short[index] - matrix[index] @ multiplier) / diagonal[index]
        new = jnp.maximum(multiplier[index] + change, 0)
        moved = jnp.abs(new - multiplier[index]) * diagonal[index]
        return multiplier.at[index].set(new), jnp.maximum(most, moved)

    def sweep(state: tuple) -> tuple:
        number, multiplier, _ = state
        found = jax.lax.fori_loop(0, short.size, one, (multiplier, jnp.zeros(())))
        return number + 1, *found

    def unfinished(state: tuple) -> Array:
        return (state[0] < SWEEPS) & (state[2] > SETTLED)

    state = (jnp.asarray(0), first, jnp.asarray(jnp.inf))
    return jax.lax.while_loop(unfinished, sweep, state)[1]
