"""Docstrings as Markdown for the reference: examples fenced, numpy's sections as lists.

A `>>>` at the start of a line is a quotation to Markdown, so examples would be unreadable.
"""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

from griffe import Extension

from prbnn.estimators.parameters import SECTIONS

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", flags=re.MULTILINE)
SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n((?:.+\n?)+)", flags=re.MULTILINE)
ITEM = re.compile(r"^(\S.*?) : ", flags=re.MULTILINE)


def markdown(text: str) -> str:
    """A docstring as Markdown."""
    text = SECTION.sub(_section, text)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found.group()}\n```", text)


def _section(found: re.Match[str]) -> str:
    items = ITEM.sub(lambda item: f"- {_names(item.group(1))}: ", found.group(2))
    return f"**{found.group(1)}**\n\n{items}"


def _names(text: str) -> str:
    return ", ".join(f"`{name.strip()}`" for name in text.split(","))


class Readable(Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """One docstring."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if SECTIONS in text:
            # estimators compose these when they are imported
            text = str(inspect.getdoc(pydoc.locate(obj.path)))
        obj.docstring.value = markdown(text)
