"""Simulation 1 on a small scale: the band by hand, one short fit, its row and its table."""

import numpy as np

from prbnn_studies import simulation1 as simulation
from prbnn_studies.tables.simulation1 import HEADINGS, engines


def test_the_band_is_counted_by_hand():
    functions = np.array([[2.5, 2.7, 3.0], [2.4, 2.7, 3.1]])
    assert simulation.in_band(functions).tolist() == [[True, True, True], [False, True, False]]


def test_a_fit_becomes_a_row_beside_the_published_draws():
    fit, curves = simulation.run("bbb", "OC-BNN", steps=200)
    assert curves.functions.shape[1] == len(simulation.grid())
    table = engines(simulation.summary([fit]))
    ((engine, strength, *cells),) = table.rows
    assert (engine, strength, len(cells)) == ("bbb", "OC-BNN", len(HEADINGS) - 2)
    assert cells[-1] == "1.000 / 1.000 / 2.761 (0.028)"
