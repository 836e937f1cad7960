"""Kills a fit at random moments, goes on with it, and compares what comes of it with a fit left alone.

Run `python benchmarks/kills.py`. Each fit is `prbnn fit ... --resume --checkpoint-every 0` in a process
of its own, which is killed (SIGKILL) and started again until it comes to its end. Three kills in eight
fall at a random time, the others where a stage has just been seen to begin. After each kill every file
with its final name is read, checksums included; after each fit every array of its model is compared, bit
for bit, with that of the fit left alone. Stages are read off the folder of the run: "start" is reading
the data, "checkpoint" a checkpoint half written, "saving" from the fitted model to the saved
run.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np

from prbnn.cli import check_command, fit_command  # noqa: F401 - imported once, for all processes
from prbnn.cli.main import app
from prbnn.errors import ModelFileError
from prbnn.runs.folder import MODEL, PLAIN, SAVED, SAVING
from prbnn.runs.resuming import KEPT
from prbnn.system.container import parse_content
from prbnn.system.disk import LOCK, PART
from prbnn_studies import records

RULES = """
knowledge:
  - increasing: sun
  - at_least: 0
"""
# words of the command by name: few steps, but several chunks of them, and draws that have to be moved
FITS = {
    "bbb": ("--engine", "bbb", "--steps", "1500", "--no-plain"),
    "bbb and its plain network": ("--engine", "bbb", "--steps", "500"),
    "ensemble": ("--engine", "ensemble", "--steps", "1000", "--no-plain"),
    "laplace": ("--engine", "laplace", "--steps", "1000", "--no-plain"),
    "nuts": ("--engine", "nuts", "--steps", "160", "--no-plain"),
}
STAGES = ("race", "training", "checkpoint", "moving draws", "saving")
# longest wait after a stage has begun, in seconds
LINGER = 0.3
# stages that a fit passes once
LATER = ("race", "training", "moving draws", "saving")
LONGEST = 600


def table(path):
    generator = np.random.default_rng(0)
    sun, heat = generator.uniform(0, 1, (2, 120))
    power = np.maximum(sun**2 * (1 - 0.3 * heat) + 0.1 * generator.normal(size=120), 0)
    rows = "\n".join(f"{s:.6f},{h:.6f},{p:.6f}" for s, h, p in zip(sun, heat, power, strict=True))
    path.write_text(f"sun,heat,power\n{rows}\n")


def started(work, words, out, *, cached):
    """A process that fits; programs compiled are read from a folder, and written there if ``cached``."""
    command = [
        "fit",
        "plant.csv",
        "--target",
        "power",
        "--knowledge",
        "rules.yaml",
        "--hidden",
        "8",
    ]
    command += ["--draws", "40", "--out", out, "--checkpoint-every", "0", *words]
    # forked before anything was computed here: imports take longer than most of these fits
    process = multiprocessing.get_context("fork").Process(target=fit, args=(work, command, cached))
    process.start()
    return process


def fit(work, command, cached):
    os.chdir(work)
    told = os.open("told.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(told, 1)
    os.dup2(told, 2)
    jax.config.update("jax_compilation_cache_dir", str(work / "programs"))
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # a killed process must not leave half a program
    least = 0.0 if cached else 1e9
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    app(command)


def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def holds(folder, process):
    """Whether a process has locked a folder."""
    try:
        return f"process {process} on" in (folder / LOCK).read_text()
    except OSError:
        return False


def stage(out, process):
    """Where the fit of a process is, by the files in the folder of its run."""
    if not holds(out, process):
        return "start"
    if any(name == SAVED or name.startswith(SAVING) for name in names(out)):
        return "saving"
    kept = out / KEPT
    done = {name for name in names(kept) if name in (MODEL, PLAIN)}
    for part in ("plain", "model"):
        found = names(kept / part)
        if holds(kept / part, process):
            if any(name.endswith(PART) for name in found):
                return "checkpoint"
            return reached(kept / part, found)
    return "saving" if done else "start"


def begins(out):
    """The first stage of a process that goes on with a fit."""
    parts = [out / KEPT / part for part in ("plain", "model")]
    there = [part for part in parts if names(part)]
    return reached(there[0], names(there[0])) if there else "race"


def reached(folder, found):
    """What a fit does after its last checkpoint."""
    files = sorted(name for name in found if name.endswith(".safetensors") and name[0] != ".")
    if not files:
        return "race"
    try:
        record, tensors = parse_content(files[-1], (folder / files[-1]).read_bytes())
    except (OSError, ModelFileError):
        # it was replaced in between
        return "training"
    ended = record["checkpoint"] == "training" and (
        tensors["training/steps"][-1] >= tensors["training/budget"][0]
    )
    moving = ended or record["checkpoint"].startswith("moving")
    return "moving draws" if moving else "training"


def corrupt(out):
    """Files with their final name that cannot be read."""
    wrong = []
    for path in [*out.rglob("*.safetensors"), *out.rglob("*.prbnn"), *out.rglob("*.json")]:
        inside = path.relative_to(out).parts
        if inside[0].startswith(SAVING) or path.name.startswith("."):
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.name != "rows.safetensors":
                parse_content(path, path.read_bytes())
        except (ModelFileError, ValueError) as error:
            wrong.append(f"{path}: {error}")
    return wrong


def arrays(out):
    """Every array of the models of a run."""
    found = {}
    for name in (MODEL, PLAIN):
        if (out / name).exists():
            _, tensors = parse_content(name, (out / name).read_bytes())
            found |= {f"{name}/{key}": value for key, value in tensors.items()}
    return found


def identical(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes()
        for name in one
    )


def alone(work, name):
    """The arrays of a fit that nothing ends, and the seconds it takes with its programs compiled."""
    out = f"{name}, alone"
    for cached in (True, False):
        began = time.perf_counter()
        if ended(started(work, FITS[name], out, cached=cached)):
            raise SystemExit((work / "told.txt").read_text())
    return arrays(work / out), time.perf_counter() - began


def ended(process):
    """Wait for a process; its exit code."""
    process.join(LONGEST)
    return process.exitcode


def kill(process, out, seconds, generator):
    """Kill a process at a random moment; the stage, or None where it ended before."""
    wanted = generator.choice((*STAGES, "time", "time", "time"))
    if wanted in LATER and LATER.index(wanted) < LATER.index(begins(out)):
        wanted = "time"
    began = time.perf_counter()
    end = generator.uniform(0.1, seconds) if wanted == "time" else LONGEST
    while time.perf_counter() - began < end:
        if not process.is_alive():
            return None
        if wanted != "time" and stage(out, process.pid) == wanted:
            if wanted != "checkpoint":
                time.sleep(generator.uniform(0, LINGER))
            break
        time.sleep(0.0005 if wanted == "checkpoint" else 0.005)
    process.kill()
    if ended(process) != -signal.SIGKILL:
        return None
    return stage(out, process.pid)


def killed(work, name, number, known, seconds, generator, counts, stages, most):
    """One fit, killed until it comes to its end or enough kills were made."""
    out = f"{name} {number}"
    while True:
        process = started(work, (*FITS[name], "--resume"), out, cached=False)
        counts["processes"] += 1
        where = None
        if counts["kills"] < most:
            where = kill(process, work / out, seconds, generator)
        code = ended(process)
        if where is None:
            break
        counts["kills"] += 1
        stages[where] += 1
        wrong = corrupt(work / out)
        counts["corrupt files"] += len(wrong)
        print(f"{counts['kills']:4d}  {out}: {where}", *wrong, flush=True)
    # every kill before was followed by a process that went on, and this one came to the end
    counts["fits"] += 1
    if code:
        counts["failed"] += 1
        print(out, "ended with", code, (work / "told.txt").read_text(), flush=True)
        return
    same = identical(known, arrays(work / out))
    counts["identical"] += same
    left = [path.name for path in (work / out).iterdir() if path.name.startswith(".")]
    counts["left behind"] += len(left)
    print(f"      {out}: {'identical' if same else 'DIFFERS'}", *left, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--only", default=",".join(FITS), help="fits, with commas between")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="begin no fit after so many")
    records.add_option(parser)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    counts = Counter({name: 0 for name in ("kills", "fits", "identical", "corrupt files")})
    stages = Counter()
    chosen = options.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        table(work / "plant.csv")
        (work / "rules.yaml").write_text(RULES)
        known = {}
        for name in chosen:
            known[name] = alone(work, name)
            print(f"{name}: {len(known[name][0])} arrays, {known[name][1]:.1f} s", flush=True)
        number, late = 0, time.monotonic() + 60 * (options.minutes or 1e9)
        while counts["kills"] < options.kills and time.monotonic() < late:
            name = chosen[number % len(chosen)]
            killed(work, name, number, *known[name], generator, counts, stages, options.kills)
            number += 1
    kills = counts["kills"]
    results = {
        "kills": kills,
        "by stage": dict(stages),
        # the process after a kill was killed in turn, or came to its end
        "clean resumes": kills - counts["failed"],
        "corrupt files": counts["corrupt files"],
        "files left behind": counts["left behind"],
        "fits": counts["fits"],
        "identical posteriors": counts["identical"],
        "processes": counts["processes"],
    }
    print(json.dumps(results, indent=1))
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
