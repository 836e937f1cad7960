"""Sequences in, trajectories out: the estimator for recurrent networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from prbnn.data.scaling import ScalingKind
from prbnn.data.sequences import Sequences, Table, from_arrays, from_table, layout_of, names_of
from prbnn.errors import DataError
from prbnn.estimators.estimator import Estimator, likelihood_of
from prbnn.fitting.prepare import check_count
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Likelihood
from prbnn.model.networks import Network
from prbnn.model.priors import LayerNormal, Prior
from prbnn.model.recurrent import LSTM
from prbnn.posterior.prediction import Prediction
from prbnn.rules.base import Rule

# few sequences are soon learned by heart; many take longer to settle
STEPS, MANY_STEPS, MANY = 3000, 6000, 1000


class PRBNNSequenceRegressor(Estimator):
    """A Bayesian recurrent network whose predicted trajectories obey the knowledge it is given.

    ``fit(X, y)`` takes arrays: ``X`` (sequences, steps, variables) and ``y`` (sequences, steps ahead,
    outputs), or (sequences, outputs) for one vector a sequence. Given ``id`` and ``time`` it takes
    one long table instead, ``fit(frame)``, a row a step.

    Parameters
    ----------
    network : `LSTM`, `GRU`, or any network of a row; LSTM() if None
    knowledge : rules, such as ``Falls("altitude", lag=3)`` or ``Between(0, 9, of="y", at="last")``
    variables, outputs, static : names of the observed variables, of those to predict, and of what
        does not change along a sequence; of a long table, its columns
    id, time : of a long table, the columns that name a sequence and order its steps
    history, ahead : of a long table, how many steps are observed and how many lie ahead
    inference : an engine's name or the engine; Bayes by Backprop with 2 draws a step if None
    noise, likelihood : as in `PRBNNRegressor`; one noise an output and step
    prior : prior over weights; LayerNormal() if None
    tempering : weight of the KL term
    scaling : "minmax", "standard" or "none"; a variable is scaled alike at every step
    steps : training budget; 3,000 if None, and twice that from 1,000 sequences on
    batch_size : sequences a step
    points : at how many sequences a rule is tried a step
    categories : variables and static columns that take only the values seen in the data
    rejection, draws, random_state, verbose : as in `PRBNNRegressor`

    Attributes
    ----------
    layout_ : how the sequences were read
    posterior_, raw_posterior_, acceptance_, knowledge_report_, audit_, result_, solution_,
    tempering_, history_, settings_ : as in `PRBNNRegressor`

    >>> import numpy as np
    >>> from prbnn import GRU, PRBNNSequenceRegressor, Rises
    >>> walks = np.cumsum(np.random.default_rng(0).uniform(0, 1, (40, 8, 1)), axis=1)
    >>> model = PRBNNSequenceRegressor(
    ...     GRU(units=4, hidden=()), [Rises("x0")], steps=2000, draws=20, random_state=0
    ... ).fit(walks[:, :5], walks[:, 5:])
    >>> model.predict(walks[:3, :5]).shape
    (3, 3, 1)
    """

    def __init__(
        self,
        network: Network | Callable | None = None,
        knowledge: Sequence[Rule] = (),
        *,
        variables: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        id: str | None = None,
        time: str | None = None,
        history: int | None = None,
        ahead: int | None = None,
        inference: str | Engine | None = None,
        noise: float | Literal["learned", "by input"] = "learned",
        likelihood: Likelihood | None = None,
        prior: Prior | None = None,
        tempering: float = 0.1,
        scaling: ScalingKind = "minmax",
        steps: int | None = None,
        batch_size: int | None = 128,
        points: int = 32,
        rejection: float | None = None,
        draws: int = 200,
        categories: Sequence[str] = (),
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
            categories=categories,
            random_state=random_state,
            verbose=verbose,
        )
        self.variables = variables
        self.outputs = outputs
        self.static = static
        self.id = id
        self.time = time
        self.history = history
        self.ahead = ahead
        self.noise = noise
        self.likelihood = likelihood

    def _defaults(self) -> dict[str, Any]:
        return {
            "network": LSTM(),
            "inference": BayesByBackprop(draws=2, learning_rate=0.005, clip=2.0, memory=100),
            "prior": LayerNormal(),
        }

    def _budget(self, rows: int) -> int:
        return self.steps or (MANY_STEPS if rows > MANY else STEPS)

    def fit(self, X: Any, y: Any = None, static: Any = None, seen: Any = None) -> Self:
        """Fit to sequences; ``seen`` is how many of the last steps of each were observed."""
        data = self._sequences(X, y, static, seen, with_targets=True)
        how = self._how(X) if self._is_table(X) else self
        layout = layout_of(data, how.variables, how.outputs, how.static)
        likelihood = likelihood_of(self.noise, self.likelihood)
        self._learn(data.rows(), data.targets(), None, likelihood, layout.targets, layout)
        self.layout_ = layout
        self._warn_unless_converged()
        return self

    def _is_table(self, X: Any) -> bool:
        return hasattr(X, "columns")

    def _how(self, X: Any) -> Table:
        """How a long table is to be read; what was not said is told."""
        missing = [n for n in ("id", "time", "history", "ahead") if getattr(self, n) is None]
        if missing:
            raise DataError(
                f"a long table needs {', '.join(missing)}: PRBNNSequenceRegressor(id='flight', "
                "time='second', history=35, ahead=15)"
            )
        check_count(history=self.history, ahead=self.ahead)
        fixed = names_of(self.static) or ()
        rest = (str(name) for name in X.columns if name not in (self.id, self.time, *fixed))
        variables = names_of(self.variables) or tuple(rest)
        steps = (int(self.history or 0), int(self.ahead or 0))
        outputs = names_of(self.outputs) or variables
        return Table(str(self.id), str(self.time), variables, outputs, fixed, *steps)

    def _fitted_table(self) -> Table:
        """At prediction columns go by the names they had at the fit, whatever their order."""
        layout = self.layout_
        names = (layout.variables, layout.outputs, layout.static)
        return Table(str(self.id), str(self.time), *names, layout.history, layout.ahead)

    def _sequences(
        self, X: Any, y: Any, static: Any, seen: Any, *, with_targets: bool
    ) -> Sequences:
        if self._is_table(X):
            if y is not None:
                raise DataError("a long table holds what lies ahead, too; leave y out")
            how = self._how(X) if with_targets else self._fitted_table()
            return from_table(X, how, with_targets=with_targets)
        if with_targets and y is None:
            raise DataError("give y, or id= and time= and one long table")
        history = self.layout_.history if hasattr(self, "layout_") and not with_targets else None
        return from_arrays(X, y, static, seen, history)

    def rows(self, X: Any, static: Any = None, seen: Any = None) -> np.ndarray:
        """Sequences as the posterior takes them: one row each, as ``layout_`` says."""
        check_is_fitted(self, "posterior_")
        data = self._sequences(X, None, static, seen, with_targets=False)
        layout = self.layout_
        for what, found, wanted in (
            ("variables", data.observed.shape[2], layout.variables),
            ("static numbers", data.static.shape[1], layout.static),
        ):
            if found != len(wanted):
                raise DataError(
                    f"X has {found} {what}, the model was fitted with {len(wanted)}: "
                    f"{', '.join(wanted)}"
                )
        return data.rows()

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Steps ahead and outputs as axes of their own."""
        if not self.layout_.ahead:
            return values
        return values.reshape(*values.shape[:-1], self.layout_.ahead, len(self.layout_.outputs))

    def predict(
        self, X: Any, return_std: bool = False, *, static: Any = None, seen: Any = None
    ) -> Any:
        """The mean trajectories (sequences, steps ahead, outputs); and their standard deviation."""
        found = self.predict_all(X, static=static, seen=seen)
        return (found.mean, found.total) if return_std else found.mean

    def predict_all(self, X: Any, *, static: Any = None, seen: Any = None) -> Prediction:
        """Mean, epistemic and aleatoric standard deviations of every step and output."""
        rows = self.rows(X, static, seen)
        found = self.posterior_.predict(rows)
        return Prediction(*map(self._shaped, (found.mean, found.epistemic, found.aleatoric)))

    def predict_quantiles(
        self,
        X: Any,
        levels: Sequence[float] = (0.05, 0.5, 0.95),
        noise: bool = True,
        *,
        static: Any = None,
        seen: Any = None,
    ) -> np.ndarray:
        """Quantiles (levels, sequences, steps ahead, outputs) of a new observation."""
        rows = self.rows(X, static, seen)
        return self._shaped(self.posterior_.quantiles(rows, levels, noise=noise))

    def sample_functions(self, X: Any, *, static: Any = None, seen: Any = None) -> np.ndarray:
        """Every stored draw's trajectories (draws, sequences, steps ahead, outputs), without noise."""
        rows = self.rows(X, static, seen)
        return self._shaped(self.posterior_.functions(rows))

    def sample(
        self, X: Any, random_state: int = 0, *, static: Any = None, seen: Any = None
    ) -> np.ndarray:
        """New observations (draws, sequences, steps ahead, outputs): trajectories with noise."""
        rows = self.rows(X, static, seen)
        return self._shaped(self.posterior_.samples(rows, random_state))
