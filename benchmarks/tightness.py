"""How hard to press: rejection allowed against error, band width and coverage, on simulation 2."""

import dataclasses

import numpy as np

from prbnn_studies import simulation2 as simulation

SEEDS = range(5)
REJECTIONS = (0.05, 0.12, 0.25, 0.5)


def main() -> None:
    print("| rejection | MSE | STD | raw draws breaking | acceptance | coverage 95 % | x > .4 |")
    print("|---|---|---|---|---|---|---|")
    for rejection in REJECTIONS:
        records = [
            dataclasses.asdict(simulation.run("PR-BNN", seed, 0.2, rejection=rejection)[0])
            for seed in SEEDS
        ]

        def median(name: str, records: list = records) -> float:
            return float(np.median([record[name] for record in records]))

        print(
            f"| {rejection:g} | {median('mse'):.4f} | {median('std'):.3f} "
            f"| {median('raw_draws_violating'):.0%} | {median('acceptance'):.0%} "
            f"| {median('coverage95'):.0%} | {median('coverage95_right'):.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
