"""`PRBNNRegressor`: a Bayesian neural network for numbers and counts, in scikit-learn's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin

from prbnn.data.scaling import ScalingKind
from prbnn.estimators.estimator import Estimator, likelihood_of, one_column
from prbnn.fitting.prepare import Enforce
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Gaussian, Likelihood
from prbnn.model.networks import Network
from prbnn.model.priors import Prior
from prbnn.posterior.prediction import Prediction
from prbnn.rules.base import Rule


class PRBNNRegressor(RegressorMixin, Estimator):
    """A Bayesian neural network for regression that obeys the knowledge it is given.

    Parameters
    ----------
    network : declaration such as `MLP`, or a factory (key, inputs, outputs); MLP() if None
    knowledge : list of rules, in the units and column names of the data
    inference : "bbb", "dropout", "svgd", "ensemble", "laplace", "sghmc", "nuts", or an engine with
        its options
    noise : "learned", "by input", or a standard deviation in the target's units
    likelihood : how observations scatter, such as `StudentT()` where some are far off or `Poisson()`
        for counts; Gaussian(noise) if None
    prior : prior over weights; Normal(0, 1) if None
    tempering : weight of the KL term; "auto" chooses it by held-out score
    scaling : "minmax", "standard" or "none"
    steps : training budget; the engine's own if None
    batch_size : rows a step; None uses all rows, or 1,024 where there are more than 4,096
    points : at how many points of its region a rule is tried a step
    rejection : share of drawn functions that may break a hard rule and be rejected; less of it
        means more pressure and narrower bands; the engine's own if None
    draws : how many functions are stored
    prove : True stores only draws that are proved to obey the hard rules on the sets that certificate_
        names (at training rows, for columns that a rule does not name), and trains on with
        counterexamples where most are not; a number is the seconds it may take
    enforce : "training", or "construction" to build hard limits and shapes into the network, which
        then obeys them whatever its weights are; rules that cannot be built raise
    categories : columns that take only the values seen in the data; truth values and category types of
        a data frame need not be named. Every other column is a number: rules are tried and proved
        between its values, too
    output_names : names of the outputs, for `of=`; taken from the data where it has them
    random_state : seed
    verbose : True shows progress; None shows it in a terminal

    Attributes
    ----------
    posterior_ : stored draws; every one obeys the rules that are hard without a tolerance, at all
        points checked, unless result_ says that acceptance is too low
    raw_posterior_ : draws before any was rejected
    acceptance_ : share of raw draws that obey every hard rule
    knowledge_report_ : table of the rules
    audit_ : training rows that break a rule by more than noise explains
    result_ : how the fit ended
    certificate_ : what was proved of the stored draws; None unless ``prove``
    noise_ : learned or stated noise in the target's units; nan where it varies or there is none
    history_ : how the objective, the violations and the duals moved in training
    settings_ : the parameters as they were, what stood for None, and the seed
    solution_, tempering_, n_features_in_, feature_names_in_ : the rest of the record

    >>> import numpy as np
    >>> from prbnn import AtLeast, MLP, PRBNNRegressor
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> model = PRBNNRegressor(MLP((8,)), [AtLeast(0)], tempering=0.2, draws=50, random_state=0)
    >>> model.fit(x, x.ravel()).predict(x).shape
    (20,)
    """

    def __init__(
        self,
        network: Network | Callable | None = None,
        knowledge: Sequence[Rule] = (),
        *,
        inference: str | Engine = "bbb",
        noise: float | Literal["learned", "by input"] = "learned",
        likelihood: Likelihood | None = None,
        prior: Prior | None = None,
        tempering: float | Literal["auto"] = "auto",
        scaling: ScalingKind = "minmax",
        steps: int | None = None,
        batch_size: int | None = None,
        points: int = 64,
        rejection: float | None = None,
        draws: int = 1000,
        prove: bool | float = False,
        enforce: Enforce = "training",
        categories: Sequence[str] = (),
        output_names: Sequence[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | None = None,
    ):
        super().__init__(
            network,
            knowledge,
            inference=inference,
            prior=prior,
            tempering=tempering,
            scaling=scaling,
            steps=steps,
            batch_size=batch_size,
            points=points,
            rejection=rejection,
            draws=draws,
            prove=prove,
            enforce=enforce,
            categories=categories,
            random_state=random_state,
            verbose=verbose,
        )
        self.noise = noise
        self.likelihood = likelihood
        self.output_names = output_names

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of ``X`` and ``y``; every mistake in data or rules is told before training."""
        targets = one_column(y)
        task = self._learn(
            X, targets, sample_weight, likelihood_of(self.noise, self.likelihood), self.output_names
        )
        noise = self.raw_posterior_.noise
        self.noise_ = float(noise[0]) if len(noise) == 1 else noise
        self._warn_unless_converged()
        if self.result_.status == "converged":
            self._warn_of_collapse(task.weight)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _warn_of_collapse(self, weight: np.ndarray) -> None:
        """Say that the prior has won, where variance explained can tell.

        Not so of outliers that `StudentT` leaves alone, nor of counts that are mostly chance.
        """
        if not isinstance(self.posterior_.likelihood, Gaussian):
            return
        columns = self.posterior_.columns
        mean = self.posterior_.predict(columns.rows).mean
        centre = np.average(columns.targets, axis=0, weights=weight)
        left = np.average((columns.targets - mean) ** 2, axis=0, weights=weight)
        explained = 1 - left / np.average((columns.targets - centre) ** 2, axis=0, weights=weight)
        if np.any(explained < 0.05) and self.tempering_ > 0.05:
            name = columns.outputs[int(np.argmin(explained))]
            warnings.warn(
                "the posterior has collapsed onto its prior: it explains "
                f"{max(0, explained.min()):.0%} of the variance of {name!r}. Either the inputs say "
                "nothing about it, or the rules leave it no room, or tempering "
                f"{self.tempering_:g} is too high for this network; try a tenth of it",
                UserWarning,
                stacklevel=3,
            )

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if values.shape[-1] == 1 else values

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean prediction; with ``return_std`` also the standard deviation of a new observation."""
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
        """Every stored function at every row (draws, rows), without noise."""
        rows = self._read(X)
        return self._shaped(self.posterior_.functions(rows))

    def sample(self, X: Any, random_state: int = 0) -> np.ndarray:
        """New observations (draws, rows): functions with noise."""
        rows = self._read(X)
        return self._shaped(self.posterior_.samples(rows, random_state))
