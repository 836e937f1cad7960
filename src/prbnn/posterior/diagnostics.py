"""Whether chains have mixed: R-hat, effective draws and divergences, of what is predicted.

Weights of a network can be swapped without changing its function, so chains need not agree on them;
they must agree on the functions. Diagnostics are therefore those of predictions at training rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prbnn.posterior.draws import Posterior

# predictions are compared at no more training rows than this
MOST_ROWS = 50
# above this, chains have not mixed
LARGEST_R_HAT = 1.05
# with fewer independent draws, 10 for each of four chains, the posterior's spread and R-hat itself are
# hardly known (Gelman et al., *Bayesian data analysis*, 2013, section 11.5)
FEWEST_EFFECTIVE = 40
# with fewer draws per chain, R-hat and effective draws are not computed
FEWEST_DRAWS = 4


@dataclass(frozen=True)
class Diagnostics:
    """The worst values over predictions at training rows; divergences are counted after the warm-up.

    - `r_hat`: over the halves of all chains, which also shows drift of a single chain or of all together;
      NaN where chains are too short, infinite where one kept the same weights in every draw
    - `kept`: how many draws were kept per chain; None of models saved before it was counted
    """

    chains: int
    r_hat: float
    effective_draws: float
    divergences: int
    acceptance: float
    kept: int | None = None

    @property
    def mixed(self) -> bool:
        """Whether the halves of all chains agree."""
        return self.r_hat <= LARGEST_R_HAT

    @property
    def stuck(self) -> bool:
        """Whether chains stay where they are: R-hat is infinite."""
        return self.r_hat == np.inf

    @property
    def few(self) -> bool:
        """Whether the draws are worth too few independent ones.

        >>> Diagnostics(4, 1.01, 12.0, 0, 0.8).few
        True
        """
        return self.effective_draws < FEWEST_EFFECTIVE

    def __str__(self) -> str:
        each = "" if self.kept is None else f" of {self.kept} draws"
        return (
            f"{self.chains} chains{each}, R-hat {self.r_hat:.3f}, {self.effective_draws:.0f} effective "
            f"draws, {self.divergences} divergences, acceptance {self.acceptance:.2f}"
        )


def diagnose(posterior: Posterior, chains: int, divergences: int, acceptance: float) -> Diagnostics:
    """Diagnostics of a posterior whose draws lie one chain after another."""
    rows = posterior.columns.distinct
    few = rows[np.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).astype(int)]
    values = by_chain(posterior.functions(few).reshape(len(posterior), -1), chains)
    kept, moving = values.shape[1], values.std(axis=(0, 1)) > 0
    if kept < FEWEST_DRAWS:
        r_hat, effective = np.nan, float(len(posterior))
    elif moving.any():
        r_hat, effective = _scores(values[..., moving])
    else:
        r_hat, effective = 1.0, float(len(posterior))
    # predictions may be the same for different weights, such as those of a class that is certain
    if kept > 1 and np.any(np.all(np.ptp(by_chain(posterior.draws, chains), axis=1) == 0, axis=1)):
        r_hat, effective = np.inf, 0.0
    return Diagnostics(
        chains, float(np.max(r_hat)), float(np.min(effective)), divergences, acceptance, kept
    )


def effective_draws(values: np.ndarray, chains: int) -> float:
    """How many independent draws a quantity's draws, one chain after another, are worth.

    At most what the spread of the chains' means allows: chains that each stay in their own place are
    worth fewer draws than they have.
    """
    each = by_chain(np.asarray(values, float)[:, None], chains)
    if each.shape[1] < FEWEST_DRAWS:
        return float(len(values))
    found = float(np.min(_scores(each)[1]))
    means = each.mean(axis=(1, 2))
    if chains < 4 or np.ptp(means) == 0:
        return found
    return min(found, chains * float(np.var(each) / np.var(means, ddof=1)))


def by_chain(values: np.ndarray, chains: int) -> np.ndarray:
    """``values`` that lie one chain after another, as (chains, draws, ...)."""
    each = len(values) // chains
    return values[: each * chains].reshape(chains, each, *values.shape[1:])


def _scores(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from blackjax.diagnostics import effective_sample_size, potential_scale_reduction

    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    if values.shape[0] < 2:
        values = halves
    with np.errstate(divide="ignore", invalid="ignore"):
        # chains that do not move have no variance of their own: R-hat is infinite, effective draws are 0
        r_hat, effective = potential_scale_reduction(halves), effective_sample_size(values)
    return np.asarray(r_hat), np.nan_to_num(np.asarray(effective))
