"""One fit of simulation 2 against the paper's loop in PyTorch, eager and vectorised, in one run.

Each runs in a process of its own, one after another; torch on one thread, which is its fastest here.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run(*command: str) -> dict:
    print("running", *command, file=sys.stderr)
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, cwd=HERE
    )
    return json.loads(done.stdout)


def main() -> None:
    ours = run("paper_fit_prbnn.py")
    eager = run("paper_loop_torch.py", "--variant", "eager", "--until")
    vectorised = run("paper_loop_torch.py", "--variant", "vectorised", "--until")
    eager_total = eager["seconds_import"] + eager["seconds_run"]
    ours_total = ours["seconds_import"] + ours["seconds_first_fit"]
    print(f"{'':34}{'seconds':>9}{'prbnn is':>16}")
    rows = [
        ("whole process, 6,000 steps", None, None),
        ("  paper's loop, eager PyTorch", eager_total, eager_total / ours_total),
        ("  prbnn, compilation included", ours_total, None),
        ("training alone", None, None),
        (
            "  paper's loop, eager",
            eager["seconds_run"],
            eager["seconds_run"] / ours["seconds_second_fit"],
        ),
        (
            "  paper's loop, vectorised",
            vectorised["seconds_run"],
            vectorised["seconds_run"] / ours["seconds_second_fit"],
        ),
        ("  prbnn, second fit (warm)", ours["seconds_second_fit"], None),
        ("to the paper's result, warm", None, None),
        (
            f"  eager ({eager['steps_to_paper_result']} steps)",
            eager["seconds_to_paper_result"],
            eager["seconds_to_paper_result"] / ours["seconds_to_paper_result"],
        ),
        (
            f"  vectorised ({vectorised['steps_to_paper_result']} steps)",
            vectorised["seconds_to_paper_result"],
            vectorised["seconds_to_paper_result"] / ours["seconds_to_paper_result"],
        ),
        (f"  prbnn ({ours['steps_to_paper_result']} steps)", ours["seconds_to_paper_result"], None),
    ]
    for label, seconds, ratio in rows:
        left = f"{label:34}" + ("" if seconds is None else f"{seconds:9.2f}")
        print(left + ("" if ratio is None else f"{ratio:9.1f} x faster"))
    print("\nquality: MSE, violations of the mean, share of raw draws that violate")
    for result in (eager, vectorised, ours):
        print(
            f"  {result['variant']:12}{result['mse']:.4f}  {result['violations_of_mean']}  "
            f"{result['draws_violating']:.0%}"
        )


if __name__ == "__main__":
    main()
