"""`PRBNNRegressor`: a Bayesian neural network for numbers and counts, in scikit-learn's conventions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin

from prbnn.assessment.doubts import collapse, noise_at_start
from prbnn.data.scaling import ScalingKind
from prbnn.estimators.arguments import likelihood_of, one_column
from prbnn.estimators.estimator import Estimator, shared
from prbnn.estimators.parameters import documented
from prbnn.fitting.checkpoints import EVERY, checkpoints_in
from prbnn.fitting.prepare import Enforce
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Likelihood
from prbnn.model.networks import Network
from prbnn.model.priors import Prior
from prbnn.posterior.prediction import Prediction
from prbnn.rules.base import Rule
from prbnn.saving.saved_model import SavedModel


@documented(
    attributes={
        "noise_": "learned or stated noise in the units of the target; nan where it varies or there is "
        "none"
    }
)
class PRBNNRegressor(RegressorMixin, Estimator):
    """A Bayesian neural network for regression that obeys the knowledge it is given.

    {parameters and attributes}

    >>> import numpy as np
    >>> from prbnn import AtLeast, MLP, PRBNNRegressor
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> rules, options = [AtLeast(0)], dict(tempering=0.2, draws=50, random_state=0)
    >>> model = PRBNNRegressor(MLP((8,)), rules, noise=0.1, **options)
    >>> model.fit(x, x.ravel()).predict(x).shape
    (20,)
    """

    def __init__(
        self,
        network: Network | Callable | None = None,
        knowledge: Sequence[Rule] = (),
        *,
        inference: str | Engine = "auto",
        noise: float | Literal["learned", "by input"] = "learned",
        likelihood: Likelihood | None = None,
        prior: Prior | None = None,
        tempering: float | Literal["auto"] = "auto",
        scaling: ScalingKind = "standard",
        steps: int | None = None,
        batch_size: int | None = None,
        points: int = 64,
        rejection: float | None = None,
        draws: int = 500,
        prove: bool | float = False,
        enforce: Enforce = "auto",
        categories: Sequence[str] = (),
        output_names: Sequence[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | None = None,
    ):
        super().__init__(**shared(locals()))
        self.noise = noise
        self.likelihood = likelihood
        self.output_names = output_names

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        censored: Any = None,
        upper: Any = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        checkpoint_every: float = EVERY,
    ) -> Self:
        """Fit to rows of ``X`` and ``y``; invalid data or rules raise before training.

        ``y`` has one or several columns of numbers; a row with ``sample_weight`` 2 counts as two rows.

        ``censored`` says of each row what ``y`` is, in words: "exact" (the value), "at least" (the true
        value is y or above), "at most" (y or below) or "between" (from y to the number in ``upper``,
        which is read in these rows only). Both have one entry per row; with several targets they have the
        shape of ``y``, or are tables with columns of the targets' names, where a target without a column
        is exact. The likelihood of a censored row is the probability of its interval.

        ``checkpoint`` names a folder in which the fit keeps where it is, every ``checkpoint_every``
        seconds (0: as often as it can). If the process ends before the fit does, the same call goes on
        from there and gives the same posterior. A fit that came to its end removes its checkpoints;
        those of another fit raise `CheckpointError`.

        >>> import numpy as np
        >>> from prbnn import MLP
        >>> x, y = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20)
        >>> above = np.where(y > 0.8, "at least", "exact")
        >>> model = PRBNNRegressor(MLP((8,)), noise=0.1, tempering=0.2, draws=50, random_state=0)
        >>> model.fit(x, np.minimum(y, 0.8), censored=above).predict(x).shape
        (20,)
        """
        targets = one_column(y)
        likelihood = likelihood_of(self.noise, self.likelihood)
        with checkpoints_in(checkpoint, checkpoint_every) as kept:
            task = self._learn(
                X,
                targets,
                sample_weight,
                likelihood,
                self.output_names,
                censored=censored,
                upper=upper,
                kept=kept,
            )
        noise = self.raw_posterior_.noise
        self.noise_ = float(noise[0]) if len(noise) == 1 else noise
        doubts = list(self.result_.warnings)
        if self.result_.status == "converged":
            doubts += collapse(self.posterior_, task.weight, self.tempering_)
        if self.result_.status in ("converged", "budget spent"):
            first = np.asarray(task.problem.likelihood_start)
            doubts += noise_at_start(self.raw_posterior_, task.weight, first)
        self.result_ = replace(self.result_, warnings=tuple(doubts))
        self._warn()
        return self

    def _restore(self, saved: SavedModel) -> None:
        super()._restore(saved)
        assert saved.noise is not None, "noise is missing"
        self.noise_ = saved.noise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """``values`` without the axis of outputs where there is only one."""
        return values[..., 0] if values.shape[-1] == 1 else values

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean prediction, (rows,) or (rows, outputs).

        With ``return_std`` also the standard deviation of a new observation.
        """
        prediction = self.predict_all(X)
        mean = self._shaped(prediction.mean)
        return (mean, self._shaped(prediction.total)) if return_std else mean

    def predict_all(self, X: Any) -> Prediction:
        """Mean, epistemic and aleatoric standard deviations, (rows, outputs)."""
        rows = self._read(X)
        return self.posterior_.predict(rows)

    def predict_quantiles(
        self,
        X: Any,
        levels: Sequence[float] = (0.05, 0.5, 0.95),
        noise: bool = True,
    ) -> np.ndarray:
        """Quantiles (levels, rows) of a new observation, or of the functions with ``noise=False``."""
        rows = self._read(X)
        return self._shaped(self.posterior_.quantiles(rows, levels, noise=noise))

    def sample_functions(self, X: Any) -> np.ndarray:
        """Values of every stored function at every row (draws, rows), without noise."""
        rows = self._read(X)
        return self._shaped(self.posterior_.functions(rows))

    def sample(self, X: Any, random_state: int = 0) -> np.ndarray:
        """New observations (draws, rows): functions with random noise of the seed ``random_state``."""
        rows = self._read(X)
        return self._shaped(self.posterior_.samples(rows, random_state))
