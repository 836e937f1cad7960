"""A figure as inline SVG that takes its colours and font from the page, or as a PNG file."""

from __future__ import annotations

import html
import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prbnn.report.palette import COLOURS, STYLE, Key, handle

PIXELS_PER_INCH = 160


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with the words that go with it; `name` is its file's, `wide` asks for half a page."""

    name: str
    title: str
    caption: str
    figure: Any
    keys: tuple[Key, ...] = ()
    wide: bool = False


def inline(picture: Picture) -> str:
    """The figure as an SVG element with a title and a description, safe to put beside others.

    Ids get the picture's name in front, since all pictures of a page share one space of names.
    """
    text = _written(picture)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for role, both in COLOURS.items():
        text = text.replace(both.light, f"var(--{role})")
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", text)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{picture.name}-\1"', text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{picture.name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{picture.name}-\1)", text)
    box = re.search(r'viewBox="[^"]+"', text)
    assert box is not None, "matplotlib wrote an SVG without a viewBox"
    head = (
        f'<svg class="plot" role="img" {box.group()} aria-labelledby="{picture.name}-title '
        f'{picture.name}-desc"><title id="{picture.name}-title">{html.escape(picture.title)}</title>'
        f'<desc id="{picture.name}-desc">{html.escape(picture.caption)}</desc>'
    )
    body = re.sub(r"^<svg[^>]*>", "", text, count=1)
    return head + re.sub(r"\s*\n\s*", " ", body)


def save(picture: Picture, folder: Path) -> Path:
    """The figure as a PNG with its title and legend, which a page says in its own type."""
    from matplotlib import rc_context

    path = folder / f"{picture.name}.png"
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is no reason to stop
        title = picture.figure.suptitle(picture.title, fontsize=10.5)
        legend = picture.figure.legend(
            handles=[handle(key) for key in picture.keys],
            loc="outside lower center",
            ncols=3 if picture.wide else 2,
            fontsize=7.5,
        )
        picture.figure.savefig(path, dpi=PIXELS_PER_INCH, facecolor=COLOURS["card"].light)
        title.remove()
        legend.remove()
    return path


def _written(picture: Picture) -> str:
    from matplotlib import rc_context

    buffer = io.StringIO()
    # the salt keeps ids, and with them the whole page, the same from run to run
    with rc_context({**STYLE, "svg.hashsalt": picture.name}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
