"""Arguments of constructors, ``fit`` and ``predict``, checked and turned into what the fit takes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from prbnn.errors import DataError
from prbnn.model.likelihoods import Gaussian, Likelihood, Noise


def likelihood_of(noise: Noise, likelihood: Likelihood | None) -> Likelihood:
    """The likelihood that the parameters ``noise`` and ``likelihood`` together ask for.

    It is a Gaussian unless ``likelihood`` is given, which then states its own noise.
    """
    if likelihood is None:
        return Gaussian(noise)
    if isinstance(likelihood, type) or not isinstance(likelihood, Likelihood):
        raise ValueError(
            f"likelihood must be a likelihood such as StudentT() or Poisson(), got {likelihood!r}"
        )
    if noise != "learned":
        raise ValueError(
            f"noise={noise!r} goes with likelihood=None only; say it in the likelihood, as in "
            f"StudentT(noise=0.1), and leave noise out (got likelihood={likelihood!r})"
        )
    return likelihood


def one_column(y: Any) -> Any:
    """``y`` as a vector where it is an array with one column, with scikit-learn's warning."""
    if y is None:
        raise DataError("this estimator requires y to be passed, but the target y is None")
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; use y.ravel()",
            DataConversionWarning,
            stacklevel=3,
        )
        return y.ravel()
    return y


def seed_of(random_state: Any) -> int:
    """A seed from ``random_state``: None draws one, and a RandomState is asked for one."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not (whole and 0 <= random_state < 2**32):
        raise ValueError(
            "random_state must be None, a RandomState or a whole number from 0 to 4294967295, "
            f"got {random_state!r}"
        )
    return int(random_state)


def check_feature_names(names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """Raise, in scikit-learn's words, where the columns ``names`` are not those of the fit."""
    start = "The feature names should match those that were passed during fit.\n"
    missing = [name for name in expected if name not in names]
    extra = [name for name in names if name not in expected]
    if missing or extra:
        raise DataError(
            start
            + (f"Feature names unseen at fit time: {extra}\n" if extra else "")
            + (f"Feature names seen at fit time, yet now missing: {missing}\n" if missing else "")
        )
    if names != expected:
        raise DataError(
            f"{start}Feature names must be in the same order as they were in fit: {expected}\n"
        )
