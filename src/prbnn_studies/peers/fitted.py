"""What every method returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prbnn_studies.peers.breaking import Breaking
from prbnn_studies.peers.data import Rows
from prbnn_studies.peers.predictive import Predictive


class Fitted(NamedTuple):
    """A fit: what it predicts on the test rows, and how often it breaks rules at so many fresh points.

    ``note`` says how the fit ended where it did not end well.
    """

    predictive: Predictive
    breaking: Callable[[int], Breaking]
    note: str = ""


Method = Callable[[Rows], Fitted]
