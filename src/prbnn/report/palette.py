"""Colours by role, for light and dark; and the style of lines and labels of every plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Colour:
    """The colour of one role in both schemes. In an SVG the light one identifies the role."""

    light: str
    dark: str


# light colours are unique, since a part of a plot is given its role by its light colour
COLOURS = {
    "ink": Colour("#1b2530", "#e9edf1"),
    "muted": Colour("#5b6673", "#a3afbb"),
    "line": Colour("#dcdfe3", "#333d48"),
    "page": Colour("#f7f7f5", "#11161c"),
    "card": Colour("#fffffe", "#19202a"),
    "accent": Colour("#1d5f8a", "#74b7e4"),
    "plain": Colour("#b4532a", "#ec9d78"),
    "bound": Colour("#7a4b93", "#c9a2e0"),
    "held": Colour("#1a1f25", "#f2f4f6"),
    "seen": Colour("#b5802a", "#d8a850"),
    "good": Colour("#22704f", "#6cc79b"),
    "caution": Colour("#8a5a00", "#e3b04f"),
    "bad": Colour("#a8323f", "#f08c96"),
    "rule-1": Colour("#1d5e8b", "#74b7e5"),
    "rule-2": Colour("#b4542a", "#ec9d79"),
    "rule-3": Colour("#22714f", "#6cc79c"),
    "rule-4": Colour("#7a4b94", "#c9a2e1"),
    "rule-5": Colour("#8a6d1b", "#d9bd62"),
    "rule-6": Colour("#4b5a66", "#b4c0ca"),
}
DASHES = (0, (4, 2.5))
RULE_COLOURS = tuple(role for role in COLOURS if role.startswith("rule-"))

# text is never read as a formula: a column may be called "$x$"
STYLE: Any = {
    "font.size": 9.5,
    "text.parse_math": False,
    "text.color": COLOURS["ink"].light,
    "axes.edgecolor": COLOURS["muted"].light,
    "axes.labelcolor": COLOURS["muted"].light,
    "axes.facecolor": "none",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "axes.labelpad": 5.0,
    "xtick.color": COLOURS["muted"].light,
    "ytick.color": COLOURS["muted"].light,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "xtick.major.width": 0.6,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": COLOURS["line"].light,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Key:
    """An entry of a legend: the kind of mark, the role of its colour, its meaning, its opacity."""

    kind: Literal["line", "dashes", "band", "dot"]
    role: str
    label: str
    strength: float = 1.0


def colour(role: str) -> str:
    """The light colour of a role; in the page it is replaced by the colour of the reader's scheme.

    >>> colour("accent")
    '#1d5f8a'
    """
    return COLOURS[role].light


def handle(key: Key) -> Any:
    """An entry of a legend, for matplotlib."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shade: dict[str, Any] = {"color": colour(key.role), "alpha": key.strength, "label": key.label}
    if key.kind == "band":
        return Patch(linewidth=0, **shade)
    if key.kind == "dot":
        return Line2D([], [], marker="o", markersize=4, markeredgewidth=0, linestyle="", **shade)
    return Line2D([], [], linewidth=1.6, linestyle="--" if key.kind == "dashes" else "-", **shade)


def variables(scheme: Literal["light", "dark"]) -> str:
    """The colours of a scheme as CSS variables."""
    return "".join(f"--{role}:{getattr(both, scheme)};" for role, both in COLOURS.items())
