"""One fit of simulation 2 against the paper's loop in PyTorch, eager and vectorised, in one run.

Each runs in a process of its own, one after another; torch on one thread, which is its fastest here.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from prbnn_studies import records
from prbnn_studies.tables import benchmarks as tables

HERE = Path(__file__).parent


def run(*command: str) -> dict:
    print("running", *command, file=sys.stderr)
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, cwd=HERE
    )
    return json.loads(done.stdout)


def compared(torch: float, prbnn: float) -> dict[str, float]:
    """Seconds of both, and how many times faster prbnn is."""
    return {"torch": torch, "prbnn": prbnn, "times": torch / prbnn}


def measured(ours: dict, eager: dict, vectorised: dict) -> dict:
    """Every comparison by what is compared."""
    found = {
        "whole process, eager loop": compared(
            eager["seconds_import"] + eager["seconds_run"],
            ours["seconds_import"] + ours["seconds_first_fit"],
        )
    }
    for name, theirs in (("eager", eager), ("vectorised", vectorised)):
        found[f"training alone, {name} loop"] = compared(
            theirs["seconds_run"], ours["seconds_second_fit"]
        )
    for name, theirs in (("eager", eager), ("vectorised", vectorised)):
        found[f"to the paper's result, {name} loop"] = compared(
            theirs["seconds_to_paper_result"], ours["seconds_to_paper_result"]
        )
    return {
        "compared": found,
        "steps_to_paper_result": {
            result["variant"]: result["steps_to_paper_result"]
            for result in (eager, vectorised, ours)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    records.add_option(parser)
    options = parser.parse_args()
    ours = run("paper_fit_prbnn.py")
    eager = run("paper_loop_torch.py", "--variant", "eager", "--until")
    vectorised = run("paper_loop_torch.py", "--variant", "vectorised", "--until")
    results = measured(ours, eager, vectorised)
    print(tables.speed(results).markdown())
    print(f"\nsteps to the paper's result: {results['steps_to_paper_result']}")
    print("\nquality: MSE, violations of the mean, fraction of raw draws that violate")
    for result in (eager, vectorised, ours):
        print(
            f"  {result['variant']:12}{result['mse']:.4f}  {result['violations_of_mean']}  "
            f"{result['draws_violating']:.0%}"
        )
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
