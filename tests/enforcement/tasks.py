"""A small problem, ready to train: rows of the unit cube and their sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prbnn import MLP, Gaussian, Normal
from prbnn.fitting.prepare import prepare
from prbnn.fitting.task import Task
from prbnn.rules.base import Rule


def prepared(rules: Sequence[Rule], inputs: int = 2, inference: str = "bbb") -> Task:
    """Columns x0, x1, ... and a known noise."""
    x = np.random.default_rng(0).uniform(size=(40, inputs))
    return prepare(
        MLP((4,)),
        x,
        x.sum(axis=1),
        rules,
        inference=inference,
        likelihood=Gaussian(0.1),
        prior=Normal(),
        tempering=1.0,
        scaling="none",
        points=64,
        rejection=None,
        sample_weight=None,
        columns=[f"x{k}" for k in range(inputs)],
        outputs=None,
        seed=0,
    )
