"""Gradients far longer than usual are shortened, and nothing else is."""

import jax.numpy as jnp
import numpy as np
import pytest

from prbnn import BayesByBackprop


def lengths(engine, norms):
    """The length of each gradient of a run after clipping."""
    usual, found = jnp.zeros(1), []
    for norm in norms:
        gradient, usual = engine._clipped(jnp.array([[3.0, 4.0]]) / 5 * norm, usual)
        found.append(float(jnp.linalg.norm(gradient)))
    return found


def test_a_gradient_of_usual_length_passes_as_it_is():
    norms = [1.0, 1.5, 0.5, 1.9]
    np.testing.assert_allclose(lengths(BayesByBackprop(clip=2.0), norms), norms, rtol=1e-6)


def test_a_spike_is_cut_to_clip_times_the_usual_and_does_not_become_usual():
    found = lengths(BayesByBackprop(clip=2.0), [1.0, 1000.0, 1000.0])
    assert found[1] == pytest.approx(2.0, rel=1e-5)
    assert 2.0 < found[2] < 2.1


def test_lengths_that_grow_for_good_are_followed():
    found = lengths(BayesByBackprop(clip=2.0), [1.0] + [10.0] * 200)
    assert found[-1] == pytest.approx(10.0, rel=1e-5)


def test_without_clip_nothing_is_cut():
    assert lengths(BayesByBackprop(), [1.0, 1000.0]) == pytest.approx([1.0, 1000.0])


def test_a_clip_must_be_above_zero():
    with pytest.raises(ValueError, match="clip"):
        BayesByBackprop(clip=0.0)
