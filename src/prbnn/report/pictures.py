"""Which plots a report has, with their names, titles and captions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prbnn.assessment.scores import ClassScores, RegressionScores
from prbnn.report import calibration_plots, plots
from prbnn.report.findings import Findings
from prbnn.report.palette import Key
from prbnn.report.profiles import Profile, limits
from prbnn.report.subject import Subject
from prbnn.report.svg import Picture
from prbnn.report.training_plots import training_pictures
from prbnn.report.wording import number, with_unit

MOST_OUTPUTS = 4
# plots along inputs: of a single output, and of each of several outputs
MOST_INPUTS = 12
FEWER_INPUTS = 6

WITH = Key("line", "accent", "with knowledge")
WITHOUT = Key("line", "plain", "plain network")
EXACT = Key("dashes", "muted", "perfect calibration")
CHANCE = Key("band", "muted", "what chance allows (95 %)", 0.2)


@dataclass(frozen=True, eq=False)
class Pictures:
    """Every plot, by the section it is in; `fit` and `calibration` have one group per output."""

    fit: tuple[tuple[Picture, ...], ...]
    training: tuple[Picture, ...]
    calibration: tuple[tuple[Picture, ...], ...]
    plain: tuple[Picture, ...]

    @property
    def all(self) -> list[Picture]:
        """All plots in the order of the page."""
        groups = (*self.fit, self.training, *self.calibration, self.plain)
        return [picture for group in groups for picture in group]


def pictures_of(subject: Subject, findings: Findings) -> Pictures:
    """Draw every plot of the report."""
    outputs = range(min(MOST_OUTPUTS, len(subject.output_names)))
    history = subject.history
    moved = history is not None and len(history.step) > 1 and len(subject.rules) > 0
    return Pictures(
        fit=tuple(_fit(subject, findings, k) for k in outputs),
        training=tuple(training_pictures(history, [rule.label for rule in subject.rules]))
        if moved and history is not None
        else (),
        calibration=_calibration(subject, findings),
        plain=_plain(subject, findings),
    )


def _suffix(subject: Subject, output: int) -> str:
    return f"-{output + 1}" if len(subject.output_names) > 1 else ""


def _fit(subject: Subject, findings: Findings, output: int) -> tuple[Picture, ...]:
    several = len(subject.output_names) > 1
    ways = findings.profiles[: FEWER_INPUTS if several else MOST_INPUTS]
    name, end = subject.output_names[output], _suffix(subject, output)
    what = f"probability of {name}" if subject.classes else name
    keys = _keys(subject, findings)
    # without a plot of observed values, two plots along inputs fill the first line
    large = 1 if subject.classes is None else 2
    found = [
        Picture(
            f"along{end}-{rank + 1}",
            f"{what} along {subject.column_names[way.column]}",
            _about_profile(subject, findings, way, output),
            plots.along(subject, way, output, wide=rank < large),
            keys,
            wide=rank < large,
        )
        for rank, way in enumerate(ways)
    ]
    if subject.classes is None:
        observed = Picture(
            f"observed{end}",
            f"{name}: observed against predicted",
            f"One dot per {subject.scored_on} row. On the dashed line the mean prediction is exact.",
            plots.observed_and_predicted(subject, findings.predicted, output),
            (plots.HELD_OUT if np.any(subject.held_out) else plots.TRAINING,),
            wide=True,
        )
        found.insert(1, observed)
    return tuple(found)


def _keys(subject: Subject, findings: Findings) -> tuple[Key, ...]:
    keys = [plots.MEAN, plots.FUNCTIONS]
    if subject.classes is None:
        keys += [plots.TOTAL, plots.TRAINING]
        if np.any(subject.held_out):
            keys.append(plots.HELD_OUT)
    columns = subject.posterior.columns
    if any(
        limits(subject.rules, columns, way, output)
        for way in findings.profiles
        for output in range(len(columns.outputs))
    ):
        keys.append(plots.BOUND)
    if any(rule.region for rule in subject.rules):
        keys.append(plots.REGION)
    return tuple(keys)


def _about_profile(subject: Subject, findings: Findings, way: Profile, output: int) -> str:
    unit = "" if subject.classes else subject.unit(subject.output_names[output])
    moves = f"Moves the mean by {with_unit(float(way.spread[output]), unit)} over the data."
    others = [k for k in range(len(subject.column_names)) if k != way.column]
    if not others:
        return moves
    if len(others) <= 4:
        held = ", ".join(
            f"{subject.column_names[k]} "
            f"{with_unit(float(findings.typical[k]), subject.unit(subject.column_names[k]))}"
            for k in others
        )
    else:
        held = "the other columns at their medians"
    rows = "" if subject.classes else " Strong dots are the 20 % of rows nearest to that."
    return f"{moves} Held: {held}.{rows}"


def _calibration(subject: Subject, findings: Findings) -> tuple[tuple[Picture, ...], ...]:
    scores, plain = findings.scores, findings.plain_scores
    if isinstance(scores, ClassScores):
        of = (
            f"the probability of {subject.output_names[0]}"
            if len(subject.output_names) == 1
            else "the most probable class"
        )
        picture = Picture(
            "reliability",
            "Reliability",
            f"Rows grouped by {of}: on the dashed line classes occur as often as predicted. Larger dots "
            "are more rows; bars are what chance allows.",
            calibration_plots.class_reliability(scores.reliability),
            (WITH, EXACT),
        )
        return ((picture,),)
    groups = []
    for output in range(min(MOST_OUTPUTS, len(subject.output_names))):
        end = _suffix(subject, output)
        ranks = plain.ranks if isinstance(plain, RegressionScores) else None
        groups.append(
            (
                Picture(
                    f"coverage{end}",
                    "Reliability of the bands",
                    "Below the dashed line bands are too narrow, above it wider than necessary.",
                    calibration_plots.coverage_curve(scores.ranks, output, ranks),
                    (WITH, *((WITHOUT,) if ranks else ()), EXACT, CHANCE),
                ),
                Picture(
                    f"ranks{end}",
                    "Where observations fall",
                    "Level bars: calibrated. High in the middle: bands too wide. High at both ends: "
                    "bands too narrow. Sloping: the mean is biased.",
                    calibration_plots.rank_histogram(scores.ranks, output),
                    (WITH, EXACT, CHANCE),
                ),
            )
        )
    return tuple(groups)


def _plain(subject: Subject, findings: Findings) -> tuple[Picture, ...]:
    if findings.plain_profile is None:
        return ()
    first = findings.profiles[0]
    output = int(np.argmax(first.spread / np.std(subject.posterior.columns.targets, axis=0)))
    ends = plots.common_ends(subject, (first, findings.plain_profile), output)
    column, name = subject.column_names[first.column], subject.output_names[output]
    what = f"probability of {name}" if subject.classes else name
    shown = number(len(first.functions))
    _, *keys = _keys(subject, findings)
    bands = [key for key in keys if key.role == plots.TOTAL.role]
    others = [key for key in keys if key not in bands]
    return tuple(
        Picture(
            file,
            f"{title}: {what} along {column}",
            f"{shown} single functions, their mean and 90 % bands; the same axes for both.",
            plots.functions(subject, way, output, ends, role),
            (Key("line", role, title), *(replace(key, role=role) for key in bands), *others),
            wide=True,
        )
        for file, title, way, role in (
            ("with-knowledge", "With knowledge", first, "accent"),
            ("plain", "Plain network", findings.plain_profile, "plain"),
        )
    )
