"""Simulation 2, decided: every draw of the default fit, and fits that go on until proved.

python benchmarks/proofs.py --seeds 10
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from prbnn import PRBNNRegressor
from prbnn_studies import simulation2


def fitted(seed: int, prove: bool) -> tuple[PRBNNRegressor, float]:
    """The default fit to a data set, and how long it took."""
    x, y = simulation2.data(seed)
    model = PRBNNRegressor(
        knowledge=simulation2.knowledge("PR-BNN"), random_state=seed, prove=prove
    )
    began = time.perf_counter()
    model.fit(x, y)
    return model, time.perf_counter() - began


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    model, _ = fitted(0, prove=False)
    for name, raw in (("stored", False), ("raw", True)):
        began = time.perf_counter()
        certificate = model.certify(raw=raw)
        spent = time.perf_counter() - began
        print(f"default fit, {name} draws, compiling included: {spent:.1f} s\n{certificate}")
    chances = ", ".join(f"{r.rule} {r.chance_of_breaking():.1%}" for r in certificate.rules)
    print(f"at 95 % confidence, no more of the raw draws' functions break a rule than: {chances}\n")
    grid = simulation2.grid()
    errors = []
    for seed in range(seeds):
        model, spent = fitted(seed, prove=True)
        mean = model.predict(grid[:, None])
        errors.append(float(np.mean((mean - simulation2.truth(grid)) ** 2)))
        print(
            f"prove=True, data set {seed}: {model.result_.status}, {len(model.posterior_)} draws, all "
            f"proved: {model.certificate_.holds}, rounds {model.solution_.proof.rounds}, MSE "
            f"{errors[-1]:.5f}, {spent:.0f} s",
            flush=True,
        )
    print(f"median MSE {np.median(errors):.5f}")


if __name__ == "__main__":
    main()
