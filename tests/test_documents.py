"""Code in the documents runs, and what they say about the package is so."""

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

import prbnn
from prbnn.cli.main import app
from tests.pages import Ran, blocks, run_python, run_shell, words

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README, PROOFS = ROOT / "README.md", DOCS / "proofs.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
ENGINEER = DOCS / "tutorial-engineer.md"

SCIENTIST = DOCS / "tutorial-data-scientist.md"
RESEARCHER = DOCS / "tutorial-researcher.md"

# what the quick tests put in place of the budgets that pages state
SHORTER = {
    README: {
        "import PRBNNRegressor": "import MLP, PRBNNRegressor",
        "    random_state=0,\n)": (
            "    random_state=0, network=MLP((16,)), tempering=0.2, steps=750, draws=50)"
        ),
    },
    DOCS / "cut-rows.md": {"steps=1000": "steps=150"},
    DOCS / "report.md": {"steps=1500, draws=100": "steps=200, draws=20"},
    DOCS / "saving.md": {
        "tempering=0.2, draws=200": "tempering=0.2, steps=400, draws=200",
        "tempering=0.2, draws=50": "tempering=0.2, steps=300, draws=50",
    },
    DOCS / "sequences.md": {"    steps=2000,": "    steps=60, draws=20,"},
}
QUICK_FIT = {
    "prbnn fit": "--steps 150 --draws 20 --hidden 8 --no-plain",
    "prbnn report": "--no-pictures",
}
# commands of the engineer's tutorial that name these files are mistakes on purpose
EXIT_CODES = {"typo.yaml": 2, "clash.yaml": 3, "holes.csv": 2}
FITTED = ("prbnn fit pump.csv --target flow --knowledge knowledge.yaml", "prbnn report run")


def name(page):
    return str(page.relative_to(ROOT))


# long ones are run as they stand, among the slow tests
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in (SCIENTIST, RESEARCHER, PROOFS)], ids=name
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    follow(page, SHORTER.get(page, {}))


def follow(page, shorter):
    space: dict = {}
    for code, _ in blocks(page, "python"):
        for stated, quick in shorter.items():
            code = code.replace(stated, quick)
        run_python(code, space, page.name)
    if "model" in space:
        assert all(rule.stored_share == 0 for rule in space["model"].knowledge_report_)


@pytest.mark.slow
@pytest.mark.parametrize("page", [*SHORTER, PROOFS], ids=name)
def test_python_blocks_run_as_they_stand(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(page, {})


@pytest.mark.parametrize("page", SHORTER, ids=name)
def test_what_is_shortened_is_there(page):
    assert all(stated in page.read_text() for stated in SHORTER[page])


@pytest.mark.slow
@pytest.mark.parametrize("page", [SCIENTIST, RESEARCHER], ids=name)
def test_python_blocks_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    for code, printed in blocks(page, "python"):
        assert words(run_python(code, space, page.name)) == words(printed or ""), code
    if "model" in space:
        assert all(rule.stored_share == 0 for rule in space["model"].knowledge_report_)


def follow_the_engineer(folder, more, left_out=()):
    """Commands of the tutorial in order: (what ran, what the page says of its block).

    Blocks that begin with a command in ``left_out`` do not run.
    """
    for code, printed in blocks(ENGINEER, "bash"):
        if code.startswith(left_out):
            continue
        ran = list(run_shell(code, folder, more))
        for done in ran:
            expected = [status for file, status in EXIT_CODES.items() if file in done.command]
            is_prbnn = done.command.startswith("prbnn ")
            if done.command.startswith("prbnn check"):
                # a proof may find what points did not
                assert done.exit_code in (0, 3), done
                continue
            assert done.exit_code == (expected[0] if expected and is_prbnn else 0), done
        output = "".join(done.output for done in ran).replace(str(folder), "/home/you/pump")
        yield Ran(ran[-1].command, output, ran[-1].exit_code), printed


@pytest.mark.light
@pytest.mark.usefixtures("short_race")
def test_engineers_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted = False
    # proofs of five rules take long to compile: tests/cli/test_run_commands.py runs `prbnn check`
    for done, printed in follow_the_engineer(tmp_path, QUICK_FIT, ("prbnn check",)):
        fitted = fitted or done.command.startswith(FITTED)
        if not fitted:
            assert _trimmed(done.output) == _trimmed(printed), done.command
    run = tmp_path / "run"
    assert {"run.json", "model.prbnn", "report.html"} <= {file.name for file in run.iterdir()}
    assert "below rating" in (run / "report.html").read_text()
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 4
    fourth = (tmp_path / "watched.csv").read_text().splitlines()[4]
    assert fourth.endswith(",True,below rating")


@pytest.mark.slow
def test_engineers_tutorial_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for done, printed in follow_the_engineer(tmp_path, {}):
        assert words(done.output) == words(printed), done.command


def _trimmed(text):
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def test_commands_of_the_home_page_are_those_of_the_tutorial():
    told = ENGINEER.read_text().splitlines()
    commands = [line for code, _ in blocks(DOCS / "index.md", "bash") for line in code.splitlines()]
    assert len(commands) == 4
    assert set(commands) <= set(told)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_pages_exist_with_their_options(page):
    text = page.read_text()
    fenced = re.findall(r"^(prbnn .*?)(?: +#.*)?$", text, flags=re.MULTILINE)
    inline = [line for line in re.findall(r"`(prbnn [^`\n]*)`", text) if " --" in line]
    for line in {*fenced, *inline}:
        words = shlex.split(line)[1:]
        if "--help" in words or line.startswith("prbnn implements"):
            continue
        command = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(line, words)  # parses, and refuses what it does not know


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_of_the_repository_named_in_pages_exist(page):
    text = page.read_text()
    folders = re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./-]+)`", text)
    scripts = re.findall(r"`(?:python )?([\w./-]+/[\w-]+\.py)\b", text)
    assert [path for path in {*folders, *scripts} if not (ROOT / path).exists()] == []


def test_the_navigation_leads_to_pages():
    def files(entry):
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        return [file for part in parts for file in files(part)]

    listed = files(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert len(listed) == len(set(listed))
    assert [file for file in listed if not (DOCS / file).exists()] == []


# what a user may import: `prbnn.NAME`, and the names of the one public module
PUBLIC = {*prbnn.__all__} | {f"certify.{name}" for name in prbnn.certify.__all__}


def test_the_reference_has_the_public_names_and_no_others():
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    listed = re.findall(r"^::: prbnn\.(\S+)$", text, flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == PUBLIC - {"certify"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_import_public_names_only(page):
    for code, _ in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                ours = [part.name for part in node.names if part.name.startswith("prbnn")]
                assert ours in ([], ["prbnn"])
            elif isinstance(node, ast.ImportFrom) and node.module.startswith("prbnn"):
                assert node.module == "prbnn"
                assert {part.name for part in node.names} <= PUBLIC


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_name_public_names_only(page):
    """Dotted names, in code and in prose: `prbnn.fit`, `prbnn.certify.verify`."""
    for dotted in re.findall(r"(?<![\w.])prbnn\.([A-Za-z][\w.]*)", page.read_text()):
        first, *rest = dotted.rstrip(".").split(".")
        found = ".".join([first, *rest[:1]]) if first == "certify" else first
        assert found in PUBLIC, dotted


def test_what_make_test_versions_runs_is_there():
    """With one name that is not there pytest would run nothing, on any version."""
    named = re.findall(r'^    "(tests/.*)",$', (ROOT / ".ci/versions.py").read_text(), re.MULTILINE)
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_importing_prbnn_does_not_import_what_is_slow_and_rarely_needed():
    code = (
        "import sys, prbnn; print({'sklearn', 'matplotlib', 'pandas', 'pydantic'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_public_names_are_importable_and_documented():
    for name in prbnn.__all__:
        assert getattr(prbnn, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError):
        prbnn.NoSuchThing  # noqa: B018
