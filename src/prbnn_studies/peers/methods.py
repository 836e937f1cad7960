"""Every method of the study by name, and whether what it needs is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from prbnn_studies.peers import boosting, own, smooth
from prbnn_studies.peers.fitted import Method

PLAIN, RULES = "plain", "with-rules"
RECTIFIED, PRESSED = "relu", "relu-rules"


class Peer(NamedTuple):
    """Another library's method: the module it needs, and what of the rules it takes."""

    method: Method
    module: str
    takes: str


PEERS = {
    "hist": Peer(boosting.hist, "sklearn", "signs; limits by clipping"),
    "xgboost": Peer(boosting.xgboost, "xgboost", "signs; limits by clipping"),
    "lightgbm": Peer(boosting.lightgbm, "lightgbm", "signs; limits by clipping"),
    "ngboost": Peer(boosting.ngboost, "ngboost", "limits by clipping"),
    "gp": Peer(smooth.gaussian_process, "sklearn", "limits by clipping"),
    "ensemble": Peer(smooth.ensemble, "sklearn", "limits by clipping"),
}
METHODS = (PLAIN, RULES, RECTIFIED, PRESSED, *PEERS)
NOT_INSTALLED = "not installed"


def method_of(name: str, steps: int | None = None) -> Method | None:
    """The method of that name, None where its library is not installed.

    ``steps`` is the number of training steps of prbnn's own methods; None is their default.
    """
    if name in PEERS:
        peer = PEERS[name]
        return peer.method if find_spec(peer.module) is not None else None
    ours: dict[str, Callable] = {
        PLAIN: own.plain,
        RULES: own.with_rules,
        RECTIFIED: own.rectified,
        PRESSED: own.pressed,
    }
    return partial(ours[name], steps=steps)
