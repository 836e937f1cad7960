"""Verdicts on networks of 6 hidden layers x 50 relu units with 5 inputs: how many, how fast, none wrong.

Run `python benchmarks/verify.py`; `--rounds 6 --seconds 60` is the full size, `--seed` makes other
instances, `--milp N` asks an exact method (mixed-integer programming) about N of the narrow ones.

What is known of an instance before it is verified:

- "folds": the minimum, exactly. Tent maps folded five times in each input, and mixed.
- false: a point that breaks the property, found by a search of its own and evaluated by NumPy.
- true: the threshold lies below the lowest value of that search by a margin, a fraction of the range
  of values in the box. A verdict "refuted" would come with a point, which NumPy evaluates again. On boxes
  of side 0.05 `--milp` finds the least value itself, by a method that shares no code with prbnn.
"""

import argparse
import collections
import itertools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from prbnn import MLP
from prbnn.certify import verify
from prbnn_studies import records
from prbnn_studies.tables.grid import Grid

INPUTS, WIDE, DEEP, OUTPUTS = 5, 50, 6, 5
STEPS = 2000
# sides of boxes in [-1, 1]^5; "slab" has two inputs over all their range and three narrow ones
WIDTHS = (0.05, 0.2, 0.4, 0.8, 2.0, "slab")
# how far the threshold is from the lowest value, as a fraction of the range of values in the box
MARGINS = {"true": (0.02, 0.1, 0.3), "false": (0.001, 0.01, 0.1)}
KINDS = ("smooth", "pieces", "advice", "random 0.7", "random 1", "random 1.4", "folds")


def teacher(kind, seed):
    generator = np.random.default_rng([seed, 1])
    a, b = generator.normal(size=(2, INPUTS, INPUTS))
    c = generator.normal(size=OUTPUTS)
    if kind == "smooth":
        return lambda x: jnp.sin(2 * x @ a) @ b * 0.5 + (x @ a) ** 2 @ b * 0.1 + c
    if kind == "pieces":
        planes = generator.normal(size=(INPUTS, 2, 8, OUTPUTS))
        heights = 0.5 * generator.normal(size=(2, 8, OUTPUTS))

        def pieces(x):
            high = jnp.max(jnp.einsum("ni,isko->nsko", x, planes) + heights, axis=2)
            return high[:, 0] - high[:, 1] + c

        return pieces
    # "advice": five costs of turning, steep where two aircraft come close
    turns = np.linspace(-1, 1, OUTPUTS)

    def costs(x):
        gap = jnp.abs(x[:, 1:2] + 0.8 * turns + 0.3 * x[:, 2:3] * x[:, 3:4])
        risk = jax.nn.sigmoid(8 * (0.5 - gap - 0.4 * x[:, :1] + 0.2 * x[:, 4:5]))
        return risk + 0.15 * jnp.abs(turns) + 0.1 * turns * x[:, 2:3]

    return costs


def trained(kind, seed):
    """(weight, bias) pairs in float32."""
    key = jax.random.key(seed)
    network = MLP((WIDE,) * DEEP).build(key, INPUTS, OUTPUTS)
    truth = teacher(kind, seed)
    optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, STEPS))

    def loss(network, x):
        return jnp.mean((jax.vmap(network)(x) - truth(x)) ** 2)

    @eqx.filter_jit
    def fit(network, state, key):
        def step(carry, key):
            network, state = carry
            x = jax.random.uniform(key, (256, INPUTS), minval=-1, maxval=1)
            change, state = optimiser.update(eqx.filter_grad(loss)(network, x), state)
            return (eqx.apply_updates(network, change), state), None

        return jax.lax.scan(step, (network, state), jax.random.split(key, STEPS))[0][0]

    network = fit(network, optimiser.init(eqx.filter(network, eqx.is_array)), key)
    return [(np.asarray(layer.weight), np.asarray(layer.bias)) for layer in network.layers]


def untrained(scale, seed, kind):
    generator = np.random.default_rng([seed, 2])
    sizes = (INPUTS, *(WIDE,) * DEEP, OUTPUTS)
    return [
        (
            (generator.normal(size=(wide, deep)) * scale * np.sqrt(2 / deep)).astype(kind),
            generator.normal(0, 0.3 * scale, size=wide).astype(kind),
        )
        for deep, wide in itertools.pairwise(sizes)
    ]


def folds(seed):
    """Outputs are means, with positive weights, of t(t(t(t(t(x))))) of each input, t a tent on [0, 1].

    The least value over a box is known: `folded`.
    """
    generator = np.random.default_rng([seed, 3])
    units = 2 * INPUTS
    first = np.zeros((WIDE, INPUTS)), np.zeros(WIDE)
    later = np.zeros((WIDE, WIDE)), np.zeros(WIDE)
    last = np.zeros((OUTPUTS, WIDE)), np.zeros(OUTPUTS)
    mix = generator.integers(1, 8, size=(OUTPUTS, INPUTS)) / 8
    for k in range(INPUTS):
        # z = (x + 1) / 2 in [0, 1]; the tent is 2 relu(z) - 4 relu(z - 1/2)
        first[0][2 * k : 2 * k + 2, k] = 0.5
        first[1][2 * k : 2 * k + 2] = 0.5, 0.0
        later[0][2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = 2, -4
        later[1][2 * k + 1] = -0.5
        last[0][:, 2 * k], last[0][:, 2 * k + 1] = mix[:, k], 0
    # the other units carry copies that the last layer adds and takes away again
    copies = (WIDE - units) // units
    for copy in range(1, copies + 1):
        rows = slice(copy * units, (copy + 1) * units)
        first[0][rows], first[1][rows] = first[0][:units], first[1][:units]
        later[0][rows, :units], later[1][rows] = later[0][:units, :units], later[1][:units]
        sign = 0.25 if copy % 2 else -0.25
        last[0][:, rows] = sign * last[0][:, :units]
    return [first, *[later] * (DEEP - 1), last]


def folded(low, high):
    """The least and greatest of each input's tents, which are straight between multiples of 1/32."""
    found = []
    for ends in zip((low + 1) / 2, (high + 1) / 2, strict=True):
        inner = np.arange(33) / 32
        z = np.array([*ends, *inner[(ends[0] < inner) & (inner < ends[1])]])
        for _ in range(DEEP - 1):
            z = 1 - np.abs(2 * z - 1)
        found.append((z.min(), z.max()))
    return np.array(found).T


def outputs(pairs, x):
    """By NumPy, in the precision of the weights."""
    for place, (weight, bias) in enumerate(pairs):
        x = np.asarray(x, weight.dtype) @ weight.T + bias
        x = np.maximum(x, 0) if place < len(pairs) - 1 else x
    return np.asarray(x, np.float64)


def score(pairs, x, rows, added, holds):
    scores = outputs(pairs, x) @ rows.T + added
    return scores.min(1) if holds == "all" else scores.max(1)


def lowest(pairs, low, high, rows, holds, generator):
    """The lowest score found and the range: random points, then coordinates moved in turn."""
    x = generator.uniform(low, high, size=(30_000, INPUTS))
    scores = score(pairs, x, rows, 0.0, holds)
    top = scores.max()
    x = x[np.argsort(scores)[:100]]
    best = score(pairs, x, rows, 0.0, holds)
    for step in 0.3 * 0.75 ** np.arange(30):
        for _ in range(2):
            moved = x[:, None] + step * (high - low) * generator.normal(size=(len(x), 16, INPUTS))
            moved[:, ::2] = np.where(
                generator.random(moved[:, ::2].shape) < 0.5, x[:, None], moved[:, ::2]
            )
            moved = np.clip(moved, low, high)
            scores = score(pairs, moved.reshape(-1, INPUTS), rows, 0.0, holds)
            scores = scores.reshape(len(x), -1)
            pick = scores.argmin(1)
            better = scores.min(1) < best
            x[better] = moved[np.arange(len(x)), pick][better]
            best = np.minimum(best, scores.min(1))
    return best.min(), top


def instances(rounds, seed):
    """One dictionary per instance; those of a round share the networks."""
    for turn in range(rounds):
        own = seed * 1000 + turn
        for kind in KINDS:
            if kind == "folds":
                pairs = folds(own)
            elif kind.startswith("random"):
                pairs = untrained(
                    float(kind.split()[1]), own, np.float32 if turn % 2 else np.float64
                )
            else:
                pairs = trained(kind, own)
            generator = np.random.default_rng([own, 4, KINDS.index(kind)])
            for width in WIDTHS:
                for truth in ("true", "false") if (turn + WIDTHS.index(width)) % 2 else ("true",):
                    yield instance(pairs, kind, width, truth, generator)


def instance(pairs, kind, width, truth, generator):
    sides = np.full(INPUTS, 0.1 if width == "slab" else width)
    if width == "slab":
        sides[generator.choice(INPUTS, 2, replace=False)] = 2.0
    middle = generator.uniform(-1 + sides / 2, 1 - sides / 2)
    low, high = middle - sides / 2, middle + sides / 2
    one, other = generator.choice(OUTPUTS, 2, replace=False)
    unit = np.eye(OUTPUTS)
    holds = "all"
    if kind == "folds":
        rows = unit[[one]]
    elif kind == "advice":
        # output `one` is never the least, or never the greatest, by more than a slack
        others = [k for k in range(OUTPUTS) if k != one]
        rows, holds = generator.choice([-1, 1]) * (unit[one] - unit[others]), "any"
    else:
        rows = (unit[one] - unit[other])[None]
    least, most = lowest(pairs, low, high, rows, holds, generator)
    if kind == "folds":
        mix = pairs[-1][0][one, : 2 * INPUTS : 2]
        least, most = folded(low, high) @ mix
    margin = generator.choice(MARGINS[truth])
    sign = 1 if truth == "true" else -1
    offset = sign * margin * (most - least) - least
    return {
        "kind": kind,
        "width": str(width),
        "truth": truth,
        "margin": float(margin),
        "holds": holds,
        "precision": str(pairs[0][0].dtype),
        "problem": (pairs, low, high, rows, offset, holds),
    }


def asked(one, seconds):
    """The verdict, with `wrong` where it is not what was known."""
    pairs, low, high, rows, offset, holds = one["problem"]
    found = verify(pairs, low, high, rows, offset, holds=holds, seconds=seconds)
    wrong = found.status == ("refuted" if one["truth"] == "true" else "proved")
    if found.status == "refuted":
        point = found.counterexample
        inside = np.all((low <= point) & (point <= high))
        # NumPy adds in another order than the deployed program
        slack = 1e-4 if one["precision"] == "float32" else 1e-9
        broken = score(pairs, point[None], rows, offset, holds)[0] < slack
        wrong = wrong or not (inside and broken)
    record = {key: value for key, value in one.items() if key != "problem"}
    return record | {
        "status": found.status,
        "wrong": bool(wrong),
        "seconds": found.seconds,
        "boxes": found.boxes,
        "left": found.left,
    }


def exact(one, seconds):
    """The least value of a narrow "all" instance of one row by mixed-integer programming, or None."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    pairs, low, high, rows, offset, _ = one["problem"]
    pairs = [(w.astype(np.float64), b.astype(np.float64)) for w, b in pairs]
    count = INPUTS + 3 * WIDE * DEEP
    lower, upper = np.zeros(count), np.zeros(count)
    lower[:INPUTS], upper[:INPUTS] = low, high
    equal, room, whole = [], [], np.zeros(count)
    ends, before = (low, high), np.arange(INPUTS)
    for place, (weight, bias) in enumerate(pairs[:-1]):
        middle, radius = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        centre, around = weight @ middle + bias, np.abs(weight) @ radius
        z, h, on = (INPUTS + 3 * WIDE * place + WIDE * part + np.arange(WIDE) for part in range(3))
        bottom, top = centre - around - 1e-6, centre + around + 1e-6
        lower[z], upper[z] = bottom, top
        lower[h], upper[h] = np.maximum(bottom, 0), np.maximum(top, 0)
        lower[on], upper[on], whole[on] = bottom > 0, top >= 0, 1
        for unit in range(WIDE):
            row = np.zeros(count)
            row[z[unit]], row[before] = 1, -weight[unit]
            equal.append((row, bias[unit]))
            for parts in (
                {h[unit]: -1, z[unit]: 1},
                {h[unit]: 1, z[unit]: -1, on[unit]: -min(bottom[unit], 0)},
                {h[unit]: 1, on[unit]: -max(top[unit], 0)},
            ):
                row = np.zeros(count)
                row[list(parts)] = list(parts.values())
                limit = -min(bottom[unit], 0) if len(parts) == 3 else 0.0
                room.append((row, limit))
        before, ends = h, (np.maximum(bottom, 0), np.maximum(top, 0))
    aim = np.zeros(count)
    aim[before] = rows[0] @ pairs[-1][0]
    conditions = [
        LinearConstraint(np.array([r for r, _ in equal]), *2 * [np.array([v for _, v in equal])]),
        LinearConstraint(np.array([r for r, _ in room]), -np.inf, np.array([v for _, v in room])),
    ]
    found = milp(
        aim,
        integrality=whole,
        bounds=Bounds(lower, upper),
        constraints=conditions,
        options={"time_limit": seconds},
    )
    return found.fun + rows[0] @ pairs[-1][1] + offset if found.status == 0 else None


def summary(verdicts):
    """How many true properties were proved and false ones refuted, and how many verdicts are wrong."""
    results = {"wrong": sum(verdict["wrong"] for verdict in verdicts)}
    for truth, status in (("true", "proved"), ("false", "refuted")):
        own = [verdict for verdict in verdicts if verdict["truth"] == truth]
        times = [verdict["seconds"] for verdict in own if verdict["status"] == status]
        results[truth] = {
            "asked": len(own),
            status: len(times),
            "median_seconds": float(np.median(times)) if times else None,
        }
    return results


def table(verdicts):
    """One row per kind and box, per kind, and for all."""
    headings = (
        "kind",
        "box",
        "true: proved",
        "median s",
        "slowest s",
        "false: refuted",
        "median s",
        "wrong",
    )
    groups = collections.defaultdict(list)
    for verdict in verdicts:
        for key in ((verdict["kind"], verdict["width"]), (verdict["kind"], "all"), ("all", "all")):
            groups[key].append(verdict)
    rows = []
    for key, group in sorted(groups.items(), key=lambda item: item[0]):
        cells = [*key]
        for truth, status in (("true", "proved"), ("false", "refuted")):
            own = [verdict for verdict in group if verdict["truth"] == truth]
            times = [verdict["seconds"] for verdict in own if verdict["status"] == status]
            cells.append(f"{len(times)}/{len(own)}")
            cells.append(f"{np.median(times):.2f}" if times else "")
            if truth == "true":
                cells.append(f"{max(times):.1f}" if times else "")
        rows.append((*cells, str(sum(verdict["wrong"] for verdict in group))))
    return Grid(headings, rows, words=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--milp", type=int, default=0)
    records.add_option(parser)
    options = parser.parse_args()
    found = []
    for one in instances(options.rounds, options.seed):
        found.append(asked(one, options.seconds))
        narrow = one["holds"] == "all" and one["width"] == "0.05"
        if narrow and options.milp:
            options.milp -= 1
            least = exact(one, 60)
            if least is not None:
                found[-1]["wrong"] |= bool(least > 0) != (one["truth"] == "true")
                found[-1]["milp"] = float(least)
        print(json.dumps(found[-1]), flush=True)
    print(table(found).markdown())
    records.write_record(options.record, summary(found))


if __name__ == "__main__":
    main()
