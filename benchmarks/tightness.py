"""How much pressure to put on hard rules: rejection allowed against error, band width and coverage.

Run `python benchmarks/tightness.py`: simulation 2 over five data sets, at tempering 0.2.
"""

import argparse

from prbnn_studies import records
from prbnn_studies import simulation2 as simulation
from prbnn_studies.tables import benchmarks as tables

SEEDS = range(5)
REJECTIONS = (0.05, 0.12, 0.25, 0.5)


def measured(seed: int, rejection: float) -> simulation.Fit:
    """The default fit with its hard rules kept by pressure alone."""
    found, _ = simulation.run("PR-BNN", seed, 0.2, rejection=rejection, enforce="pressure")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    records.add_option(parser)
    options = parser.parse_args()
    results = {}
    for rejection in REJECTIONS:
        fits = [measured(seed, rejection) for seed in SEEDS]
        results[f"{rejection:g}"] = simulation.medians(fits)
    print(tables.tightness(results).markdown())
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
