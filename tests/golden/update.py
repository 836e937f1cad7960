"""``python -m tests.golden.update`` (``make golden``): measure again, print what changed, and write it.

``--dry`` prints and writes nothing.
"""

from __future__ import annotations

import json
import sys

from prbnn.posterior.checks import CHECK_POINTS
from prbnn.system.environment import environment
from tests.golden.measure import FILE, TOLERANCES, differences, distance, measure


def main(dry: bool) -> None:
    fits = measure()
    if FILE.exists():
        record = json.loads(FILE.read_text())
        for line in changes(record["fits"], fits):
            print(line)
        now = environment()
        for name in sorted(set(now) | set(record["environment"])):
            before, after = record["environment"].get(name, "-"), now.get(name, "-")
            if before != after:
                print(f"{name}: {before} -> {after}")
    if dry:
        return
    record = {"check_points": CHECK_POINTS, "environment": environment(), "fits": fits}
    FILE.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    print(f"wrote {FILE.name}")


def changes(old: dict, new: dict) -> list[str]:
    """What is different, tolerated or not."""
    found = differences(old, new) or ["nothing differs by more than is tolerated"]
    for fit in sorted(set(old) & set(new)):
        if old[fit]["bits"] == new[fit]["bits"]:
            found.append(f"{fit}: the same bits")
            continue
        apart = {name: distance(name, old[fit][name], new[fit][name]) for name in TOLERANCES}
        found.append(f"{fit}: " + ", ".join(f"{name} {each:.1e}" for name, each in apart.items()))
    return found


if __name__ == "__main__":
    main("--dry" in sys.argv[1:])
