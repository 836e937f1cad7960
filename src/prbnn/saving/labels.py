"""Labels of classes as JSON and back, with the dtype of their array."""

from __future__ import annotations

from typing import Any

import numpy as np

from prbnn.errors import ModelFileError

KINDS = "OTUbiuf"
# numpy reserves the longest possible text for every label
MOST_BYTES = 1 << 26


def labels_to(labels: np.ndarray | None) -> dict[str, Any] | None:
    """Labels with the dtype of their array; None for None."""
    if labels is None:
        return None
    kind = labels.dtype.kind
    if kind not in KINDS:
        raise ModelFileError(
            f"labels of type {labels.dtype} cannot be saved; turn them into text or whole numbers "
            "before fitting"
        )
    return {"dtype": kind if kind in "OT" else labels.dtype.str, "labels": labels.tolist()}


def labels_from(plain: Any, outputs: int) -> np.ndarray:
    """The labels in ``plain``: one per output, or two for a single output; other counts raise.

    >>> labels_from({"dtype": "<U3", "labels": ["no", "yes"]}, 1)
    array(['no', 'yes'], dtype='<U3')
    """
    labels, name = plain["labels"], plain["dtype"]
    count = max(outputs, 2)
    if not isinstance(labels, list) or len(labels) != count:
        raise ModelFileError(f"{count} labels of classes are needed, got {labels!r:.80}")
    if not all(isinstance(label, str | int | float | bool) for label in labels):
        raise ModelFileError(f"labels are texts or numbers, got {labels!r:.80}")
    dtype = np.dtype(name if isinstance(name, str) and len(name) < 20 else "V")
    if dtype.kind not in KINDS or dtype.shape:
        raise ModelFileError(f"labels of type {name!r:.80} are not read")
    if dtype.kind == "U" and dtype.itemsize * count > MOST_BYTES:
        raise ModelFileError(
            f"{count} labels of type {name!r} would take {dtype.itemsize * count:,} bytes; at most "
            f"{MOST_BYTES:,} are read"
        )
    return np.array(labels, dtype=dtype)
