"""Every engine on the same three problems: time, memory, held-out score and obedience.

Run `python benchmarks/engines.py`; each fit has a process of its own, so that memory is its own.
`--engines bbb,nuts` and `--problems curve` choose among them.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

from prbnn_studies import records
from prbnn_studies.tables import benchmarks as tables

ENGINES = ("bbb", "dropout", "svgd", "ensemble", "laplace", "sghmc", "nuts")


def curve(seed):
    from prbnn import MLP, PRBNNRegressor
    from prbnn_studies import simulation2 as simulation

    x, y = simulation.data(seed)
    generator = np.random.default_rng(seed)
    held = generator.uniform(0.1, 0.65, 1000)
    wanted = simulation.truth(held) + generator.normal(0, 0.1, 1000)
    keep = wanted >= 0
    return PRBNNRegressor(MLP((100,)), simulation.knowledge("PR-BNN")), (
        x,
        y,
        held[keep, None],
        wanted[keep],
    )


def surface(seed):
    from prbnn import MLP, AtLeast, Increasing, PRBNNRegressor

    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 1, (1400, 4))
    clean = 2 * x[:, 0] ** 2 + np.sqrt(x[:, 1]) * (0.3 + x[:, 2]) + 0.3 * np.sin(6 * x[:, 3]) + 0.3
    y = clean + 0.2 * generator.normal(size=len(x))
    rules = [Increasing("x0"), Increasing("x1"), AtLeast(0)]
    return PRBNNRegressor(MLP((50,)), rules), (x[:400], y[:400], x[400:], y[400:])


def classes(seed):
    from prbnn import MLP, Compare, Increasing, PRBNNClassifier

    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 1, (1400, 3))
    x[:, 2] = generator.integers(0, 2, len(x))
    chance = 1 / (1 + np.exp(-(6 * x[:, 0] - 3 + np.sin(5 * x[:, 1]))))
    y = np.where(generator.random(len(x)) < chance, "yes", "no")
    rules = [Increasing("x0"), Compare({"x2": 1}, within={"x2": 0}, by=0.05)]
    return PRBNNClassifier(MLP((20,)), rules, categories=["x2"]), (
        x[:400],
        y[:400],
        x[400:],
        y[400:],
    )


def one(problem, engine, seed):
    """Fit once; time, memory, held-out score and obedience."""
    model, (x, y, held, wanted) = globals()[problem](seed)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(inference=engine, random_state=seed, verbose=False).fit(x, y)
    seconds = time.perf_counter() - began
    targets = wanted
    if problem == "classes":
        targets = (wanted == model.classes_[1]).astype(float)
    from prbnn.rules.scoring.binding import bind_all

    stored, rules = model.posterior_, model.solution_.rules
    fresh = bind_all(rules, stored.columns, stored.scaling, 4096, margins=False, seed=99)
    diagnostics = model.solution_.diagnostics
    return {
        "seconds": seconds,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "nll": float(-np.mean(stored.log_density(held, targets))),
        "acceptance": model.acceptance_,
        "stored": len(stored),
        "stored_breaking": float(np.mean(~stored.check(rules, fresh).obeys())),
        "tempering": model.tempering_,
        "r_hat": diagnostics.r_hat if diagnostics else None,
        "result": str(model.result_.status),
    }


def measured(problem, engine, seed):
    """`one` in a process of its own, or None where it failed."""
    command = [sys.executable, __file__, "--one", problem, engine, "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{engine} failed: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--problems", default=",".join(tables.PROBLEMS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", nargs=2, metavar=("PROBLEM", "ENGINE"), help=argparse.SUPPRESS)
    records.add_option(parser)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one, options.seed)))
        return
    results = {}
    for problem in options.problems.split(","):
        found = {
            engine: measured(problem, engine, options.seed) for engine in options.engines.split(",")
        }
        results[problem] = {engine: row for engine, row in found.items() if row is not None}
        table = tables.engines(problem)(results)
        print(f"\n{table.title}\n\n{table.markdown()}", flush=True)
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
