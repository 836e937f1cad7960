"""`PRBNNSequenceRegressor`: a Bayesian recurrent network that predicts trajectories from sequences."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from prbnn.data.scaling import ScalingKind
from prbnn.data.sequences import (
    LongTable,
    Sequences,
    from_arrays,
    from_table,
    given_names,
    layout_of,
)
from prbnn.errors import DataError
from prbnn.estimators.arguments import likelihood_of
from prbnn.estimators.estimator import Estimator, shared
from prbnn.estimators.parameters import PARAMETERS, documented
from prbnn.fitting.checkpoints import EVERY, checkpoints_in
from prbnn.fitting.prepare import Enforce, check_count
from prbnn.inference.bbb import BayesByBackprop
from prbnn.inference.engine import Engine
from prbnn.model.likelihoods import Likelihood
from prbnn.model.networks import Network
from prbnn.model.priors import LayerNormal, Prior
from prbnn.model.recurrent import LSTM
from prbnn.posterior.prediction import Prediction
from prbnn.rules.base import Rule
from prbnn.saving.saved_model import SavedModel

# training steps, and those for more than MANY sequences: few are soon overfitted, many take longer
STEPS, MANY_STEPS, MANY = 3000, 6000, 1000


@documented(
    parameters={
        "network": "`LSTM`, `GRU`, or any network of a row; LSTM() if None",
        "knowledge": 'list of rules, such as ``Falls("altitude", lag=3)`` or '
        '``Between(0, 9, of="y", at="last")``',
        "variables": "names of the observed variables; of a long table, its columns",
        "outputs": "names of the variables to predict; of a long table, its columns",
        "static": "names of what does not change along a sequence; of a long table, its columns",
        "id": "of a long table, the column that names a sequence",
        "time": "of a long table, the column that orders the steps",
        "history": "of a long table, the number of observed steps",
        "ahead": "of a long table, the number of steps to predict",
        "inference": 'an engine or its name; "bbb", also if None, is Bayes by Backprop with one member, '
        "2 draws per step, clipped gradients and a short memory",
        "noise": f"{PARAMETERS['noise']}; one noise per output and step",
        "prior": "prior over weights; LayerNormal() if None",
        "tempering": "weight of the KL term; less makes a posterior of few sequences overconfident",
        "scaling": f"{PARAMETERS['scaling']}; a variable is scaled alike at every step",
        "steps": "number of training steps; if None 3,000, and 6,000 above 1,000 sequences",
        "batch_size": "sequences per step",
        "points": "number of sequences at which a rule is evaluated per step",
        "enforce": 'how hard rules are kept: "pressure" on the posterior until few draws break them; '
        '"projection" of each draw that breaks one to the nearest function that obeys, by the network\'s '
        'last layer, with the margins of the rules; "auto" is pressure; "construction" is for tables',
        "categories": "variables and static columns that take only the values seen in the data",
    },
    attributes={
        "layout_": "how the sequences were read",
        "certificate_": "None: a fit to sequences proves nothing; see ``certify``",
    },
)
class PRBNNSequenceRegressor(Estimator):
    """A Bayesian recurrent network whose predicted trajectories obey the knowledge it is given.

    ``fit(X, y)`` takes arrays: ``X`` (sequences, steps, variables) and ``y`` (sequences, steps ahead,
    outputs), or (sequences, outputs) for one vector per sequence. Given ``id`` and ``time`` it takes
    one long table instead, ``fit(frame)``, with one row per step.

    {parameters and attributes}

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
        tempering: float = 0.3,
        scaling: ScalingKind = "minmax",
        steps: int | None = None,
        batch_size: int | None = 128,
        points: int = 32,
        rejection: float | None = None,
        draws: int = 200,
        enforce: Enforce = "auto",
        categories: Sequence[str] = (),
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | None = None,
    ):
        super().__init__(**shared(locals()))
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        static: Any = None,
        seen: Any = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        checkpoint_every: float = EVERY,
    ) -> Self:
        """Fit to sequences; invalid data or rules raise before training.

        ``X`` and ``y`` are arrays, or ``X`` is a long table and ``y`` None; ``static`` is an array
        (sequences, static columns), ``seen`` the number of steps that were observed, per sequence.
        ``checkpoint`` and ``checkpoint_every`` are those of `PRBNNRegressor.fit`.
        """
        data = self._sequences(X, y, static, seen, with_targets=True)
        how = self._how(X) if self._is_table(X) else self
        layout = layout_of(data, how.variables, how.outputs, how.static)
        likelihood = likelihood_of(self.noise, self.likelihood)
        rows, targets = data.rows(), data.targets()
        with checkpoints_in(checkpoint, checkpoint_every) as kept:
            self._learn(rows, targets, None, likelihood, layout.targets, layout, kept=kept)
        self.layout_ = layout
        self._warn()
        return self

    def _restore(self, saved: SavedModel) -> None:
        super()._restore(saved)
        assert saved.posterior.columns.layout is not None, "the layout of the sequences is missing"
        self.layout_ = saved.posterior.columns.layout

    def _is_table(self, X: Any) -> bool:
        return hasattr(X, "columns")

    def _how(self, X: Any) -> LongTable:
        """How to read the long table ``X`` at a fit; parameters that are missing for that raise."""
        missing = [n for n in ("id", "time", "history", "ahead") if getattr(self, n) is None]
        if missing:
            raise DataError(
                f"a long table needs {', '.join(missing)}: PRBNNSequenceRegressor(id='flight', "
                "time='second', history=35, ahead=15)"
            )
        check_count(history=self.history, ahead=self.ahead)
        fixed = given_names(self.static) or ()
        rest = (str(name) for name in X.columns if name not in (self.id, self.time, *fixed))
        variables = given_names(self.variables) or tuple(rest)
        steps = (int(self.history or 0), int(self.ahead or 0))
        outputs = given_names(self.outputs) or variables
        return LongTable(str(self.id), str(self.time), variables, outputs, fixed, *steps)

    def _fitted_table(self) -> LongTable:
        """How to read a long table at prediction: by the names of the fit, in any order of columns."""
        layout = self.layout_
        names = (layout.variables, layout.outputs, layout.static)
        return LongTable(str(self.id), str(self.time), *names, layout.history, layout.ahead)

    def _sequences(
        self, X: Any, y: Any, static: Any, seen: Any, *, with_targets: bool
    ) -> Sequences:
        """The sequences of arrays or of a long table; ``with_targets`` at a fit."""
        if self._is_table(X):
            if y is not None:
                raise DataError("a long table also holds the steps ahead; leave y out")
            how = self._how(X) if with_targets else self._fitted_table()
            return from_table(X, how, with_targets=with_targets)
        if with_targets and y is None:
            raise DataError("give y, or id= and time= and one long table")
        history = self.layout_.history if hasattr(self, "layout_") and not with_targets else None
        return from_arrays(X, y, static, seen, history)

    def rows(self, X: Any, static: Any = None, seen: Any = None) -> np.ndarray:
        """The sequences as rows of the posterior's inputs, one row each, as ``layout_`` describes."""
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
        """``values`` with steps ahead and outputs as separate axes."""
        if not self.layout_.ahead:
            return values
        return values.reshape(*values.shape[:-1], self.layout_.ahead, len(self.layout_.outputs))

    def predict(
        self, X: Any, return_std: bool = False, *, static: Any = None, seen: Any = None
    ) -> Any:
        """Mean trajectories (sequences, steps ahead, outputs).

        With ``return_std`` also the standard deviation of a new observation.
        """
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
        """Quantiles (levels, sequences, steps ahead, outputs) of a new observation.

        With ``noise=False`` they are those of the functions.
        """
        rows = self.rows(X, static, seen)
        return self._shaped(self.posterior_.quantiles(rows, levels, noise=noise))

    def sample_functions(self, X: Any, *, static: Any = None, seen: Any = None) -> np.ndarray:
        """Trajectories of every stored draw (draws, sequences, steps ahead, outputs), without noise."""
        rows = self.rows(X, static, seen)
        return self._shaped(self.posterior_.functions(rows))

    def sample(
        self, X: Any, random_state: int = 0, *, static: Any = None, seen: Any = None
    ) -> np.ndarray:
        """New observations (draws, sequences, steps ahead, outputs): trajectories with random noise.

        ``random_state`` is the seed of the noise.
        """
        rows = self.rows(X, static, seen)
        return self._shaped(self.posterior_.samples(rows, random_state))
