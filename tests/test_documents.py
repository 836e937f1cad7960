"""Code in the documents runs, and what they say about the package is so."""

import re
from pathlib import Path

import pytest

import prbnn

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    space: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), space)
    if "model" in space:
        assert all(rule.stored_share == 0 for rule in space["model"].knowledge_report_)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_public_names_are_importable_and_documented():
    for name in prbnn.__all__:
        assert getattr(prbnn, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError):
        prbnn.NoSuchThing  # noqa: B018
