"""Training until proved: refuted draws are replaced, and their counterexamples are trained on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from prbnn.certify.certificate import Certificate
from prbnn.certify.certifying import Certifier
from prbnn.fitting.fitted import FittedTask
from prbnn.fitting.obeying import obeying as obeying_draws
from prbnn.fitting.result import Progress, Proof, Solution
from prbnn.fitting.train import train
from prbnn.inference.engine import Engine
from prbnn.model.construction.built import built_in
from prbnn.posterior.draws import Posterior
from prbnn.rules.base import Rule
from prbnn.rules.strengths import Kind

SECONDS = 300.0
# where a smaller fraction of the draws that passed the check at points is proved, training goes on
ENOUGH = 0.5
# rounds of further training at most, each of a quarter of the steps that the fit was given
ROUNDS = 4
# draws certified beyond those wanted, for those that will be refuted
SPARE = 8
# draws checked per draw that is wanted, at most
TRIES = 50


def prove(
    solution: Solution,
    count: int,
    seconds: float = SECONDS,
    *,
    batch_size: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    stage: Callable[[str], None] | None = None,
) -> Solution:
    """The solution with a `Proof` of ``count`` draws, or of as many as ``seconds`` allow.

    Draws are checked at points, then proved on the sets that the certificate names, for the hard rules
    without a tolerance. Draws that are refuted or undecided are replaced by further draws. Where most
    are, counterexamples join the points of their rules and training goes on. A fit that failed or was
    interrupted is returned as it is. ``stage`` is called with the name of each stage.
    """
    if solution.result.status in ("diverged", "infeasible", "interrupted"):
        return solution
    met = built_in(solution.posterior.network)
    hard = [rule for rule in solution.rules if rule.strength.kind == Kind.HARD]
    rules = [rule for rule in hard if rule.label not in met]
    if not rules:
        return solution
    say = stage or (lambda text: None)
    deadline = time.monotonic() + seconds
    certifier = Certifier(solution.posterior, rules)
    further: dict[int, list[np.ndarray]] = {}
    rounds, steps = 0, _steps_per_round(solution)
    while True:
        say("proving draws")
        proof, broken = _collect(solution, certifier, rules, count, deadline)
        solution = replace(solution, proof=replace(proof, rounds=rounds))
        late = time.monotonic() > deadline
        if proof.complete or late or rounds == ROUNDS or not _resumable(solution):
            return solution
        positions = [place for place, rule in enumerate(solution.rules) if rule in rules]
        for place, points in zip(positions, broken, strict=True):
            if len(points):
                further.setdefault(place, []).append(points)
        rounds += 1
        say("training on, with counterexamples")
        joined = {place: np.concatenate(parts) for place, parts in further.items()}
        solution = _go_on(solution, joined, rounds, steps, batch_size, progress)


def _collect(
    solution: Solution,
    certifier: Certifier,
    rules: Sequence[Rule],
    count: int,
    deadline: float,
) -> tuple[Proof, list[np.ndarray]]:
    """Proved draws, and the points (by rule) at which others were refuted."""
    proved: Posterior | None = None
    parts: list[Certificate] = []
    broken: list[list[np.ndarray]] = [[] for _ in rules]
    checked = number = obeyed = 0
    columns = solution.posterior.columns.inputs
    while proved is None or len(proved) < count:
        raw = solution.posterior if number == 0 else solution.more(len(solution.posterior), number)
        checked, number = checked + len(raw), number + 1
        obeying = obeying_draws(solution, raw, rules).posterior
        obeyed += len(obeying)
        have = 0 if proved is None else len(proved)
        # no more than are wanted, and a few for those that will be refuted
        obeying = obeying.take(np.arange(min(len(obeying), SPARE + (count - have) * 9 // 8)))
        left = deadline - time.monotonic()
        if len(obeying):
            certificate = certifier.certify(obeying, max(left, 1.0))
            keep = certificate.proved
            for place, rule in enumerate(certificate.rules):
                broken[place] += [
                    np.array([each.point[name] for name in columns])
                    for each in rule.counterexamples
                ]
            kept = obeying.take(keep)
            parts.append(certificate)
            proved = kept if proved is None else proved.joined(kept)
            if np.mean(keep) < ENOUGH and len(proved) < count and _resumable(solution):
                break
        if (
            not solution.fitted.endless
            or time.monotonic() > deadline
            or checked > TRIES * count
            or ((proved is None or not len(proved)) and number >= 3)
        ):
            break
    if proved is None:
        proved = solution.posterior.take(np.zeros(len(solution.posterior), bool))
    certified = max(1, sum(len(part.proved) for part in parts))
    fraction = sum(int(part.proved.sum()) for part in parts) / certified
    acceptance = obeyed / checked * fraction
    stored = proved.take(np.arange(min(count, len(proved))))
    found = certifier.joined(parts, stored)
    points = [np.array(each).reshape(-1, len(columns)) for each in broken]
    wanted = count if solution.fitted.endless else max(1, min(count, obeyed))
    return Proof(stored, found, acceptance, 0, len(stored) >= wanted), points


def _resumable(solution: Solution) -> bool:
    """Whether training can go on: not of samplers, nor of engines that did work after training."""
    if not isinstance(solution.fitted, FittedTask):
        return False
    engine = solution.fitted.task.engine
    return engine.block == 1 and type(engine).finish is Engine.finish


def _steps_per_round(solution: Solution) -> int:
    """A quarter of the steps that the fit was given."""
    fitted = solution.fitted
    if not isinstance(fitted, FittedTask):
        return 0
    return max(fitted.task.engine.chunk, fitted.budget // 4)


def _go_on(
    solution: Solution,
    further: dict[int, np.ndarray],
    number: int,
    steps: int,
    batch_size: int | None,
    progress: Callable[[Progress], None] | None,
) -> Solution:
    """Train ``steps`` steps more, with ``further`` points by rule; ``number`` counts these rounds."""
    fitted = solution.fitted
    assert isinstance(fitted, FittedTask)
    task = fitted.task.also_at(further)
    carry = fitted.carry._replace(
        key=jax.random.fold_in(fitted.carry.key, number), step=jnp.zeros((), int)
    )
    return train(
        task,
        steps,
        batch_size=batch_size,
        draws=len(solution.posterior),
        early_stopping=False,
        progress=progress,
        seed=fitted.seed + number,
        since=carry,
    )
