"""What a fit costs with rules and without, and how little it depends on its seed.

Run `python benchmarks/fits.py`. The data are simulated: six inputs and four rules that are true, and the
same problem as a large table with 20 inputs beside scikit-learn's network. `--only costs,seeds` chooses;
`--only deep` fits two layers of 1,024 units to 200,000 rows, which needs a GPU.
"""

import argparse
import time
import warnings
from functools import partial
from statistics import median

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from prbnn import MLP, AtLeast, Decreasing, Increasing, PRBNNRegressor
from prbnn_studies import records
from prbnn_studies.peers.own import mixture
from prbnn_studies.peers.predictive import scores

NOISE = 0.3
RULES = (Increasing("x0"), Increasing("x1"), Decreasing("x2"), AtLeast(0))


def plant(rows, seed):
    """Six inputs; the output rises with two, falls with one, and is never negative."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 1, (rows, 6))
    clean = 2 * x[:, 0] ** 2 + np.sqrt(x[:, 1]) * (0.3 + x[:, 3]) - 0.8 * x[:, 2] + 1
    clean = clean + 0.3 * np.sin(6 * x[:, 4])
    return x, clean + NOISE * generator.normal(size=rows), clean


def wide(rows, seed):
    """20 inputs, of which three matter, and little noise."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 20))
    return x, x[:, 0] + np.tanh(x[:, 1]) * x[:, 2] + 0.1 * generator.normal(size=rows)


def timed(work):
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def fitted(x, y, seed, rules=(), network=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PRBNNRegressor(network, list(rules), random_state=seed, verbose=False)
        return model.fit(x, y)


def crps(model, x, y):
    return scores(mixture(model.posterior_, x), y)[0]


def costs(repeats):
    """Seconds of a first fit, which compiles, and of later ones; of quantiles; of boosted trees."""
    found = {}
    for name, rules in (("plain", ()), ("four rules", RULES)):
        seconds = [
            timed(partial(fitted, *plant(400, seed)[:2], seed, rules))[0]
            for seed in range(1 + repeats)
        ]
        found[name] = {"first": seconds[0], "second": median(seconds[1:])}
    x, y, _ = plant(400, 0)
    trees = HistGradientBoostingRegressor(monotonic_cst=[1, 1, -1, 0, 0, 0])
    found["boosted trees"] = {"first": timed(lambda: trees.fit(x, y))[0]}
    found["boosted trees"]["second"] = timed(lambda: trees.fit(x, y))[0]
    model, new = fitted(x, y, 0), plant(1000, 99)[0]
    levels = np.linspace(0.01, 0.99, 99)
    first, _ = timed(lambda: model.predict_quantiles(new[:500], levels))
    second, _ = timed(lambda: model.predict_quantiles(new, levels))
    found["99 quantiles of 1,000 rows"] = {"first": first, "second": second}
    return found


def large(rows):
    """A table of many rows, beside scikit-learn's network."""
    x, y = wide(rows + 5000, 0)
    train, test = slice(0, rows), slice(rows, None)
    peer = make_pipeline(
        StandardScaler(),
        MLPRegressor(hidden_layer_sizes=(100,), early_stopping=True, max_iter=500, random_state=0),
    )
    found = {}
    for name, fit in (
        ("scikit-learn's MLPRegressor", lambda: peer.fit(x[train], y[train])),
        ("prbnn", lambda: fitted(x[train], y[train], 0)),
    ):
        seconds, model = timed(fit)
        found[name] = {"seconds": seconds, "r2": float(r2_score(y[test], model.predict(x[test])))}
    return {str(rows): found}


def deep(rows):
    """Two layers of 1,024 units on a table of many rows."""
    x, y = wide(rows + 5000, 0)
    network = MLP((1024, 1024), "gelu")
    seconds, model = timed(lambda: fitted(x[:rows], y[:rows], 0, (), network))
    r2 = float(r2_score(y[rows:], model.predict(x[rows:])))
    found = {"seconds": seconds, "r2": r2, "tempering": model.tempering_}
    return {str(rows): {**found, "status": model.result_.status, "steps": model.solution_.steps}}


def seeds(count):
    """Spread over seeds of the same data: standard deviation of CRPS over its mean."""
    x, y, _ = plant(100, 0)
    new, wanted, _ = plant(2000, 99)
    found = {}
    for name, rules in (("plain", ()), ("four rules", RULES)):
        each = [crps(fitted(x, y, seed, rules), new, wanted) for seed in range(count)]
        spread = np.std(each, ddof=1) / np.mean(each)
        found[name] = {"crps": float(np.mean(each)), "spread": float(spread)}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="costs,large,seeds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--deep-rows", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=10)
    records.add_option(parser)
    options = parser.parse_args()
    parts = {
        "costs": lambda: costs(options.repeats),
        "large": lambda: large(options.rows),
        "deep": lambda: deep(options.deep_rows),
        "seeds": lambda: seeds(options.seeds),
    }
    results = {}
    for part in options.only.split(","):
        results[part] = parts[part]()
        print(part, results[part], flush=True)
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
