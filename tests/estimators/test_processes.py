"""Estimators in other processes and threads give the bits that they give alone.

What starts a process is slow: each imports JAX and compiles anew.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas
import pytest
from sklearn.model_selection import cross_val_score

from prbnn import MLP, Increasing, PRBNNClassifier, PRBNNRegressor
from tests.estimators.problems import RULES, Table, settings, small, table_of

# short fits say that their budget was spent, and are right
pytestmark = [
    pytest.mark.light,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
ROOT = Path(__file__).parents[2]


def bits(model: Any, inputs: Any) -> str:
    """A hash of the draws and of what is predicted from them."""
    found = (
        [model.predict_proba(inputs)]
        if hasattr(model, "classes_")
        else [*model.predict(inputs, return_std=True), model.predict_quantiles(inputs)]
    )
    draws = [model.posterior_.vectors, model.raw_posterior_.vectors]
    digest = hashlib.sha256(str(model.knowledge_report_).encode())
    for part in (*draws, *found):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def fitted_bits(model: Any, inputs: Any, target: Any) -> str:
    return bits(model.fit(inputs, target), inputs)


# --- threads -------------------------------------------------------------------------------------


def test_a_fit_in_a_thread_has_the_bits_that_it_has_alone(table: Table) -> None:
    models = [small(network=MLP(()), steps=20, draws=8) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda model: fitted_bits(model, *table.pandas), models))
        again = list(pool.map(lambda model: bits(model, table.pandas[0]), models))
    assert {*found, *again} == {fitted_bits(models[0], *table.pandas)}


@pytest.mark.slow
def test_fits_and_predictions_in_threads_have_the_bits_that_they_have_alone(table: Table) -> None:
    inputs, target = table.pandas
    options = {"network": MLP(()), "steps": 40, "draws": 10}
    make = [
        lambda: small(RULES, **options),
        lambda: small(inference="laplace", **options),
        lambda: PRBNNClassifier(**settings(**options)),
    ]
    targets = [target, target, target > target.median()]
    alone = [fitted_bits(one(), inputs, goal) for one, goal in zip(make, targets, strict=True)]
    with ThreadPoolExecutor(6) as pool:
        jobs = [
            pool.submit(fitted_bits, one(), inputs, goal)
            for _ in range(2)
            for one, goal in zip(make, targets, strict=True)
        ]
        assert [job.result() for job in jobs] == alone * 2
    model = small(RULES, **options).fit(inputs, target)
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(lambda _: bits(model, inputs), range(6))) == {alone[0]}


# --- processes -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(table: Table) -> tuple[PRBNNRegressor, pandas.DataFrame, str]:
    inputs, target = table.pandas
    model = small(RULES, network=MLP((2,)), steps=60, draws=10).fit(inputs, target)
    return model, inputs, bits(model, inputs)


LOADER = """
import pickle, sys
from tests.estimators.test_processes import bits
with open(sys.argv[1], "rb") as file:
    model, inputs = pickle.load(file)
print(bits(model, inputs))
"""


@pytest.mark.slow
@pytest.mark.parametrize("writer", [pickle.dump, joblib.dump], ids=["pickle", "joblib"])
def test_a_fitted_model_predicts_the_same_bits_in_another_process(known, writer, tmp_path) -> None:
    model, inputs, wanted = known
    with (tmp_path / "model").open("wb") as file:
        writer((model, inputs), file)
    code = LOADER if writer is pickle.dump else LOADER.replace("pickle", "joblib")
    assert python(code, str(tmp_path / "model")).split() == [wanted]


@pytest.mark.slow
def test_a_spawned_process_fits_and_predicts_the_same_bits(known, table: Table) -> None:
    model, inputs, wanted = known
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(bits, (model, inputs)) == wanted
        again = PRBNNRegressor(**model.get_params(deep=False))
        assert pool.apply(fitted_bits, (again, *table.pandas)) == wanted


@pytest.mark.slow
def test_folds_in_processes_score_as_in_one(table: Table) -> None:
    inputs, target = table.pandas
    model = small([Increasing("dose")], network=MLP((2,)), steps=60, draws=10)
    alone, parallel = (
        cross_val_score(model, inputs, target, cv=2, n_jobs=jobs, error_score="raise")
        for jobs in (None, 2)
    )
    assert np.array_equal(alone, parallel)


# --- cores ---------------------------------------------------------------------------------------

# rows above 1,024 in one step, a search for the tempering, moved draws, 101 eigenvalues, sequences
SAME = """
import json, os, sys, warnings
cores = int(sys.argv[1])
if cores and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
warnings.simplefilter("ignore")
import numpy as np
from prbnn import *
from tests.estimators.test_processes import bits, settings, table_of

def fitted(rows, **options):
    table = table_of(rows=rows)
    rules = [AtLeast(0.1), Increasing("x0")]
    model = PRBNNRegressor(knowledge=rules, **settings(draws=60, **options))
    return bits(model.fit(table.inputs, table.target), table.inputs)

def sequences():
    generator = np.random.default_rng(0)
    height = generator.uniform(5, 9, (40, 1)) - 0.2 * np.arange(14)
    model = PRBNNSequenceRegressor(
        LSTM(6), [Falls("height", lag=1)], variables=["height"], outputs=["height"], steps=30,
        draws=20, random_state=0, enforce="projection", verbose=False,
    )
    x = height[:, :10, None]
    return bits(model.fit(x, height[:, 10:, None]), x)

wide = MLP((100,), "gelu")
found = {
    "projection": fitted(120, network=wide, steps=100, tempering="auto"),
    "many rows": fitted(2000, network=wide, steps=20),
    "laplace": fitted(120, network=wide, inference="laplace", steps=100),
    "sequences": sequences(),
}
print(json.dumps(found))
"""
CASES: dict[str, dict[str, Any]] = {
    "one core": {"cores": 1},
    "two cores": {"cores": 2},
    "eight threads of XLA": {"NPROC": "8"},
    "one thread of BLAS": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
}


@pytest.mark.slow
def test_the_number_of_cores_and_threads_changes_no_bit() -> None:
    found = {name: same(**case) for name, case in CASES.items()}
    for name, each in found.items():
        assert each == found["one core"], name


@pytest.mark.slow
def test_a_process_that_fitted_others_before_gives_the_same_bits() -> None:
    before = "table = table_of(seed=3, rows=70)\nsmall(steps=20).fit(table.inputs, table.target)\n"
    code = SAME.replace("wide = ", f"from tests.estimators.problems import small\n{before}wide = ")
    assert json.loads(python(code, "0")) == same()


def same(cores: int = 0, **environment: str) -> dict[str, str]:
    return json.loads(python(SAME, str(cores), **environment))


def python(code: str, *arguments: str, **environment: str) -> str:
    """What a new process prints."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    given = {name: value for name, value in os.environ.items() if name != "NPROC"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**given, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_fits_that_are_compared_differ_from_each_other() -> None:
    """The hash covers what it should: another seed gives another one."""
    table = table_of()
    one, other = (
        fitted_bits(small(network=MLP(()), steps=5, draws=4, random_state=seed), *table.pandas)
        for seed in (0, 1)
    )
    assert one != other
