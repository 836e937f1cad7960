"""Proofs on simulation 2: every draw of the default fit, and fits that train until all are proved.

Run `python benchmarks/proofs.py --seeds 10`.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np

from prbnn import PRBNNRegressor
from prbnn_studies import records, simulation2


def fitted(seed: int, prove: bool) -> tuple[PRBNNRegressor, float]:
    """The default fit to a data set, and how long it took."""
    x, y = simulation2.data(seed)
    model = PRBNNRegressor(
        knowledge=simulation2.knowledge("PR-BNN"), random_state=seed, prove=prove
    )
    began = time.perf_counter()
    model.fit(x, y)
    return model, time.perf_counter() - began


def decided(model: PRBNNRegressor, raw: bool) -> dict:
    """Verdicts on every draw, and the seconds that took; of the rules, the least and the most."""
    began = time.perf_counter()
    certificate = model.certify(raw=raw)
    seconds = time.perf_counter() - began
    print(f"default fit, {'raw' if raw else 'stored'} draws: {seconds:.1f} s\n{certificate}\n")
    proved = [rule.proved for rule in certificate.rules]
    found = {
        "draws": certificate.rules[0].draws,
        "least_proved": min(proved),
        "most_proved": max(proved),
        "undecided": max(rule.undecided for rule in certificate.rules),
        "seconds": seconds,
    }
    if raw:
        chances = [rule.chance_of_breaking() for rule in certificate.rules]
        found |= {"least_chance_of_breaking": min(chances), "most_chance_of_breaking": max(chances)}
    return found


def until_proved(seeds: int) -> dict:
    """Fits with ``prove=True`` to as many data sets."""
    grid = simulation2.grid()
    errors, seconds, proved, rounds = [], [], [], []
    for seed in range(seeds):
        model, spent = fitted(seed, prove=True)
        mean = model.predict(grid[:, None])
        errors.append(float(np.mean((mean - simulation2.truth(grid)) ** 2)))
        seconds.append(spent)
        proved.append(len(model.posterior_) if model.certificate_.holds else 0)
        rounds.append(model.solution_.proof.rounds)
        print(
            f"prove=True, data set {seed}: {model.result_.status}, {proved[-1]} draws proved, rounds "
            f"{rounds[-1]}, MSE {errors[-1]:.5f}, {spent:.0f} s",
            flush=True,
        )
    return {
        "data_sets": seeds,
        "fewest_proved": min(proved),
        "most_rounds": max(rounds),
        "median_mse": statistics.median(errors),
        "least_seconds": min(seconds),
        "median_seconds": statistics.median(seconds),
        "most_seconds": max(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    records.add_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model, _ = fitted(0, prove=False)
    results = {
        "stored": decided(model, raw=False),
        "raw": decided(model, raw=True),
        "until_proved": until_proved(options.seeds),
    }
    print(results["until_proved"])
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
