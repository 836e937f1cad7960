"""Make docs/report.png and docs/report-phone.png: fit a simulated plant, report on it, take pictures.

Run from the repository's root: python docs/make_report_picture.py [folder]. The folder keeps the
report itself; it needs Chromium, and looks best where the font Inter is installed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.report import plant  # noqa: E402
from tests.report.browser import Browser  # noqa: E402

from prbnn import PRBNNRegressor, Subject, write_report  # noqa: E402

STEPS = 8_000


def report(folder: Path) -> Path:
    """The plant's first weeks, with and without what is known of it."""
    inputs, power, held_out = plant.plant()
    frame = pd.DataFrame(inputs, columns=plant.COLUMNS)
    training, targets = frame[~held_out], pd.Series(power[~held_out], name="power")
    model, plain = (
        PRBNNRegressor(knowledge=rules, steps=STEPS, random_state=0).fit(training, targets)
        for rules in (plant.knowledge(), [])
    )
    subject = Subject(
        model,
        plain,
        inputs,
        power,
        held_out,
        "A solar plant's first weeks: power from weather",
        plant.UNITS,
        "python docs/make_report_picture.py",
        ["Simulated, not measured: tests/report/plant.py says how."],
    )
    return write_report(subject, folder)


def main() -> None:
    """Both pictures."""
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        page = report(Path(sys.argv[1] if len(sys.argv) > 1 else scratch))
        for name, width, height in (("report", 1280, 1284), ("report-phone", 390, 844)):
            browser.open(page, width, height)
            (ROOT / "docs" / f"{name}.png").write_bytes(browser.picture())


if __name__ == "__main__":
    main()
