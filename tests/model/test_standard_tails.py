"""Tails in float32, against scipy's in float64."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

from prbnn import Gaussian, StudentT
from prbnn.model.standard_tails import LARGEST_FREEDOM

LIKELIHOODS = {
    "Gaussian": (Gaussian(), stats.norm()),
    **{
        f"StudentT({nu})": (StudentT(freedom=nu), stats.t(nu))
        for nu in (2.01, 3, 4.5, 20, LARGEST_FREEDOM)
    },
}
POINTS = np.linspace(-30, 30, 4001).astype(np.float32)


@pytest.mark.parametrize(("likelihood", "law"), LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_tails_and_densities_are_those_of_scipy(likelihood, law) -> None:
    """Relative to the tail itself, as far as float32 reaches."""
    tail, density = jax.jit(likelihood.standard_tail().lower)(POINTS)
    for found, wanted in ((tail, law.cdf(POINTS)), (density, law.pdf(POINTS))):
        seen = wanted > 1e-30
        assert np.max(np.abs(np.asarray(found)[seen] / wanted[seen] - 1)) < 2e-5
        likely = wanted > 1e-6
        assert np.max(np.abs(np.asarray(found)[likely] / wanted[likely] - 1)) < 5e-6
        assert np.all(np.asarray(found)[~seen] < 2e-30)


def test_far_out_a_tail_is_a_number() -> None:
    far = np.float32([-1e31, -1e10, 1e10, 1e31])
    for likelihood in (Gaussian(), StudentT(freedom=3)):
        tail, density = (np.asarray(part) for part in likelihood.standard_tail().lower(far))
        assert tail == pytest.approx([0, 0, 1, 1], abs=1e-25)
        assert density == pytest.approx(np.zeros(4), abs=1e-25)


def test_a_student_that_is_almost_normal_has_none() -> None:
    assert StudentT(freedom=LARGEST_FREEDOM + 1).standard_tail() is None
