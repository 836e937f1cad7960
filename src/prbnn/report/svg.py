"""A figure as inline SVG that takes its colours and font from the page, or as a PNG file."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from prbnn.report.palette import COLOURS, STYLE, Key, handle
from prbnn.system.disk import write_inside
from prbnn.system.printing import printable

PIXELS_PER_INCH = 160
INCHES_PER_LINE = 0.16
# attributes whose numbers are cut to 1/100 of a point
NUMBERS = ("d", "x", "y", "transform", "points")


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its title, caption and legend.

    `name` is that of its file; `wide` makes it take half of the page's width instead of a third.
    """

    name: str
    title: str
    caption: str
    figure: Any
    keys: tuple[Key, ...] = ()
    wide: bool = False


def inline(picture: Picture) -> str:
    """The figure as an SVG element with a title and a description.

    Ids are prefixed with the picture's name, since they must be unique in the page.
    """
    root = ElementTree.fromstring(_written(picture))
    for parent in list(root.iter()):
        for child in list(parent):
            if _plain_name(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _plain_name(element.tag)
        # white space between elements has no meaning; text of the user's stays as it is
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None
        element.attrib = {
            _plain_name(key): _attribute(_plain_name(key), value, picture.name)
            for key, value in element.attrib.items()
        }
    names = [f"{picture.name}-{part}" for part in ("title", "desc")]
    for place, (name, text) in enumerate(zip(names, (picture.title, picture.caption), strict=True)):
        said = ElementTree.Element(name.rpartition("-")[2], id=name)
        said.text = text
        root.insert(place, said)
    root.attrib = {
        "class": "plot",
        "role": "img",
        "viewBox": root.attrib["viewBox"],
        "aria-labelledby": " ".join(names),
    }
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _plain_name(name: str) -> str:
    """A name without its namespace, which HTML does not need."""
    return name.rpartition("}")[2]


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return value.replace("#", f"#{name}-", 1)
    if key == "style":
        value = re.sub(r"font: ([\d.]+)px [^;]*", r"font-size: \1px", value)
        value = re.sub(r"font-family: [^;]*;? ?", "", value)
    for role, both in COLOURS.items():
        value = value.replace(both.light, f"var(--{role})")
    value = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value)
    return re.sub(r"(\d\.\d\d)\d+", r"\1", value) if key in NUMBERS else value


def save(picture: Picture, folder: Path) -> Path:
    """Save the figure as a PNG with title and legend, which a page shows as text; return its path."""
    from matplotlib import rc_context

    figure, columns = picture.figure, 2 if picture.wide else 1
    width, height = figure.get_size_inches()
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the font may lack a letter of a name
        title = figure.suptitle(picture.title, fontsize=10.5)
        legend = figure.legend(
            handles=[handle(key) for key in picture.keys],
            loc="outside lower center",
            ncols=columns,
            fontsize=7.5,
        )
        lines = -(-len(picture.keys) // columns)
        figure.set_size_inches(width, height + INCHES_PER_LINE * (lines + 2))
        drawn = io.BytesIO()
        colour = COLOURS["card"].light
        figure.savefig(drawn, format="png", dpi=PIXELS_PER_INCH, facecolor=colour)
        figure.set_size_inches(width, height)
        title.remove()
        legend.remove()
    name = f"{picture.name}.png"
    write_inside(folder, name, drawn.getvalue())
    return folder / name


def _written(picture: Picture) -> str:
    from matplotlib import rc_context

    buffer = io.StringIO()
    # the salt keeps ids, and with them the whole page, the same from run to run
    with rc_context({**STYLE, "svg.hashsalt": picture.name}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    # XML has no control characters, and names may
    return printable(buffer.getvalue())
