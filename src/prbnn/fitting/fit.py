"""The functional layer: data, a network and knowledge in, a `Solution` out; failure is data."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from prbnn.data.scaling import ScalingKind
from prbnn.fitting import prove as proving
from prbnn.fitting.checkpoints import EVERY, checkpoints_in
from prbnn.fitting.identity import identity_of
from prbnn.fitting.prepare import Enforce, check_count, prepare
from prbnn.fitting.result import Progress, Solution
from prbnn.fitting.train import train
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Gaussian, Likelihood
from prbnn.model.networks import Network
from prbnn.model.priors import Normal, Prior
from prbnn.rules.base import Rule


def fit(
    network: Network | Callable,
    x: Any = None,
    y: Any = None,
    knowledge: Sequence[Rule] = (),
    *,
    inference: str | Engine = "bbb",
    likelihood: Likelihood | None = None,
    prior: Prior | None = None,
    tempering: float = 1.0,
    scaling: ScalingKind = "none",
    steps: int | None = None,
    batch_size: int | None = None,
    points: int = 64,
    rejection: float | None = None,
    draws: int | None = None,
    sample_weight: Any = None,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    categories: Sequence[str] = (),
    early_stopping: bool = True,
    prove: bool | float = False,
    progress: Callable[[Progress], None] | None = None,
    seed: int = 0,
    enforce: Enforce = "pressure",
    censored: Any = None,
    upper: Any = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = EVERY,
) -> Solution:
    """Fit a posterior of ``network`` under ``knowledge``, a list of rules.

    Maximises E_q log p(y | x, w) - tempering * KL(q || prior) subject to the rules.

    - ``x``, ``y``: tables or arrays; both None fits the prior under the rules alone
    - ``inference``: an engine or its name; a name stands for the engine with its own defaults, so "bbb"
      is one posterior
    - ``likelihood``, ``prior``: where None, a Gaussian with learned noise, and a standard normal
    - ``scaling``: "none" (the network sees your units, in which priors and duals are stated), "standard"
      or "minmax"
    - ``steps``: the budget (the engine's own if None); ``early_stopping`` may end sooner
    - ``batch_size``: rows per step; None is all rows; of more than 2,048 it is 1/64, but no
      fewer than 256 and no more than 1,024
    - ``points``: at how many points of each rule's region a step evaluates it
    - ``rejection``: under pressure, the fraction of drawn functions that may break a hard rule without a
      tolerance, and be rejected by conditioning; a smaller one means more pressure and a narrower
      posterior. None is the engine's own
    - ``draws``: how many raw functions the returned posterior holds; None is 1,000, or all there are
      of an engine with a fixed number of members or kept draws
    - ``sample_weight``: how many rows each row counts as
    - ``columns``, ``outputs``: names of the inputs and targets, where ``x`` and ``y`` have none
    - ``categories``: columns that take only the values seen in ``x``; boolean columns and categorical
      columns of a data frame need not be named. Every other column is a number, and rules are checked
      and proved between its values, too
    - ``prove``: True (or seconds) finds as many draws that are proved to obey the hard rules on the sets
      that ``solution.proof.certificate`` names; these draws are ``solution.proof.posterior``. Where most
      draws are not proved, training goes on with their counterexamples
    - ``progress``: called with a `Progress` after each chunk of steps
    - ``seed``: of the network's start, training and draws
    - ``enforce``: how hard rules are kept. "pressure" moves the posterior until few draws break them;
      "projection" trains without them, and the estimators then move each draw that breaks one to the
      nearest function that obeys; "construction" builds the rules into the network, which then obeys
      them whatever its weights are, and raises where that cannot be done. "auto", for a smooth `MLP`
      over a table and an engine that can always draw more, is construction where all hard rules are
      numbers as limits that hold everywhere; else training holds the mean violation of each hard rule to
      0.01 of the rule's unit, and the estimators move the draws that break one. In all other cases
      "auto" is pressure
    - ``censored``, ``upper``: which rows of ``y`` are only one end of what is known, and the upper ends
      of those that are "between"; as in `PRBNNRegressor.fit`
    - ``checkpoint``: a folder in which the fit keeps where it is, every ``checkpoint_every`` seconds (0:
      after each chunk of steps). If the process ends before the fit does, the same call goes on from
      there and gives the same posterior. A fit that came to its end removes its checkpoints; those of
      another fit raise `CheckpointError`

    >>> from prbnn import AtLeast, MLP, Normal
    >>> solution = fit(MLP(hidden=()), [[0.0], [1.0]], [0.2, -0.1], [AtLeast(0)], steps=50)
    >>> solution.result.status in ("converged", "budget spent")
    True
    """
    check_count(steps=steps, points=points, draws=draws, batch_size=batch_size)
    task = prepare(
        network,
        x,
        y,
        knowledge,
        inference=inference,
        likelihood=likelihood or Gaussian(),
        prior=prior or Normal(),
        tempering=tempering,
        scaling=scaling,
        points=points,
        rejection=rejection,
        sample_weight=sample_weight,
        columns=columns,
        outputs=outputs,
        seed=seed,
        enforce=enforce,
        categories=categories,
        censored=censored,
        upper=upper,
    )
    with checkpoints_in(checkpoint, checkpoint_every) as kept:
        stated = {
            "scaling": scaling,
            "steps": steps,
            "batch_size": batch_size,
            "points": points,
            "rejection": rejection,
            "draws": draws,
            "early_stopping": early_stopping,
            "prove": prove,
            "enforce": enforce,
        }
        kept.claim(identity_of(task, seed, stated))
        solution = train(
            task,
            steps,
            batch_size=batch_size,
            draws=draws,
            early_stopping=early_stopping,
            progress=progress,
            seed=seed,
            kept=kept,
        )
        if prove:
            seconds = proving.SECONDS if prove is True else float(prove)
            solution = proving.prove(
                solution, len(solution.posterior), seconds, batch_size=batch_size, progress=progress
            )
        kept.ended = solution.result.status != "interrupted"
    return solution
