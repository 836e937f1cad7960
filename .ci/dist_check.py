"""Builds wheel and sdist, looks into them, and uses each in an empty environment without the repository.

``python .ci/dist_check.py`` (or ``make dist-check``) leaves the two files in dist/.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
IN_BOTH = ("prbnn/py.typed", "prbnn/report/page.css", "prbnn_studies/pages.py")
IN_WHEEL = ("licenses/LICENSE", "entry_points.txt")
IN_SDIST = (
    *("README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "Makefile", "pyproject.toml"),
    *("constraints.txt", "constraints-oldest.txt", "mkdocs.yml", "tests/conftest.py"),
    *("tests/rules/every_rule.py", "docs/versions.md", "docs/knowledge.schema.json"),
    *("records/simulation2.json", "benchmarks/fuzz.py"),
)
JUNK = ("__pycache__", ".pyc", ".git/", ".venv", ".versions", ".hypothesis", ".pytest_cache")
JUNK += (".ruff_cache", "/site/", "/dist/", "/shared/", ".egg-info", ".scratch", "nohup.out")
TABLE = "x,y\n" + "".join(f"{k},{k % 7}\n" for k in range(60))
RULES = "knowledge:\n  - {name: never negative, at_least: 0}\n"
SMALL = ("--hidden", "4", "--steps", "50", "--draws", "10")


def run(*command: object, folder: Path = ROOT) -> None:
    """Run a command outside of any environment of the caller's; what fails ends the check."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], cwd=folder, env=clean, check=True)


def contents(path: Path) -> list[str]:
    """Names of the files in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as sdist:
        return sdist.getnames()


def look_into(path: Path) -> None:
    """Fail where a file is missing that should be there, or one is there that should not."""
    names = contents(path)
    wanted = IN_BOTH + (IN_WHEEL if path.suffix == ".whl" else IN_SDIST)
    missing = [name for name in wanted if not any(found.endswith(name) for found in names)]
    junk = [found for found in names if any(part in found for part in JUNK)]
    size = path.stat().st_size / 2**20
    print(f"{path.name}: {len(names)} files, {size:.1f} MiB", flush=True)
    if missing or junk:
        sys.exit(f"{path.name} lacks {missing} and holds {junk[:9]}")


def use(path: Path, made: Path, demo: bool) -> None:
    """Install a file into an empty environment, and work with it from an empty folder."""
    environment, work = made / f"for-{path.suffix[1:]}", made / f"work-{path.suffix[1:]}"
    run(sys.executable, "-m", "venv", environment)
    binaries = environment / "bin"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
    run(binaries / "python", "-m", "pip", "install", *quiet, path)
    work.mkdir()
    (work / "data.csv").write_text(TABLE)
    (work / "rules.yaml").write_text(RULES)
    inside = f"import prbnn; assert prbnn.__file__.startswith({str(environment)!r}), prbnn.__file__"
    run(binaries / "python", "-I", "-c", inside, folder=work)
    prbnn = binaries / "prbnn"
    run(prbnn, "--help", folder=work)
    run(prbnn, "version", folder=work)
    run(prbnn, "knowledge", "schema", "--out", "schema.json", folder=work)
    fit = ("fit", "data.csv", "--target", "y", "--knowledge", "rules.yaml", "--out", "run")
    run(prbnn, *fit, *SMALL, folder=work)
    run(prbnn, "predict", "run", "data.csv", "--out", "predictions.csv", folder=work)
    run(prbnn, "report", "run", folder=work)
    wanted = ["schema.json", "run/model.prbnn", "run/report.html", "predictions.csv"]
    if demo:
        run(prbnn, "demo", folder=work)
        wanted.append("prbnn-demo.png")
    missing = [name for name in wanted if not (work / name).is_file()]
    if missing:
        sys.exit(f"{path.name}, installed, did not write {missing}")


def main() -> None:
    """Build, look, install, use."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        run(sys.executable, "-m", "venv", made / "tools")
        tool = made / "tools" / "bin" / "python"
        run(
            tool, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build", "twine"
        )
        run(tool, "-m", "build", "--outdir", DIST, ROOT)
        (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
        run(tool, "-m", "twine", "check", "--strict", wheel, sdist)
        for path in (wheel, sdist):
            look_into(path)
        use(wheel, made, demo=True)
        use(sdist, made, demo=False)
    print(f"{wheel.name} and {sdist.name} install and work without the repository")


if __name__ == "__main__":
    main()
