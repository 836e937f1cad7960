"""Published test errors on the standard splits: (value, the ± printed beside it or None).

NLL in nats, lower is better; published log likelihoods have their sign turned. The ± of PBP and of
Gal's reruns are standard errors; those of the deep ensembles paper's MC dropout and deep ensembles
look like standard deviations over splits (4.5 times a standard error).

- (A) Lakshminarayanan et al., *Deep ensembles*, 2017, table 1: one hidden layer of 50 units
- (B) Gal's rerun of MC dropout, longer and with hyperparameters searched for (DropoutUncertaintyExps)
- (C) SGHMC of Springenberg et al., *Bayesian optimization with robust BNNs*, 2016
- HMPF: the own result of the paper that (C) is quoted from
- concrete dropout: Gal et al., 2017, as quoted by later papers
"""

from __future__ import annotations

Number = tuple[float, float | None]
SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "wine", "yacht")


def _row(text: str) -> dict[str, Number]:
    """Cells in the order of SETS: ``3.01±0.18``, a bare number, or ``-`` for none."""
    found: dict[str, Number] = {}
    for name, cell in zip(SETS, text.split(), strict=True):
        if cell != "-":
            value, _, error = cell.partition("±")
            found[name] = float(value), float(error) if error else None
    return found


RMSE = {
    "PBP (A)": _row(
        "3.01±0.18 5.67±0.09 1.80±0.05 0.10±0.00 0.01±0.00 4.12±0.03 0.64±0.01 1.02±0.05"
    ),
    "MC dropout (A)": _row(
        "2.97±0.85 5.23±0.53 1.66±0.19 0.10±0.00 0.01±0.00 4.02±0.18 0.62±0.04 1.11±0.38"
    ),
    "deep ensembles (A)": _row(
        "3.28±1.00 6.03±0.58 2.09±0.29 0.09±0.00 0.00±0.00 4.11±0.17 0.64±0.04 1.58±0.48"
    ),
    "MC dropout, BO (B)": _row(
        "2.83±0.17 4.93±0.14 1.08±0.03 0.09±0.00 0.00±0.00 4.00±0.04 0.61±0.01 0.70±0.05"
    ),
    "MC dropout, grid (B)": _row(
        "2.90±0.18 4.82±0.16 0.54±0.06 0.08±0.00 0.00±0.00 4.01±0.04 0.62±0.01 0.67±0.05"
    ),
    "concrete dropout": _row("2.65±0.17 4.46±0.16 0.46±0.02 0.07 - 3.70±0.04 0.62 0.57±0.05"),
}

NLL = {
    "PBP (A)": _row(
        "2.57±0.09 3.16±0.02 2.04±0.02 -0.90±0.01 -3.73±0.01 2.84±0.01 0.97±0.01 1.63±0.02"
    ),
    "MC dropout (A)": _row(
        "2.46±0.25 3.04±0.09 1.99±0.09 -0.95±0.03 -3.80±0.05 2.80±0.05 0.93±0.06 1.55±0.12"
    ),
    "deep ensembles (A)": _row(
        "2.41±0.25 3.06±0.18 1.38±0.22 -1.20±0.02 -5.63±0.05 2.79±0.04 0.94±0.12 1.18±0.21"
    ),
    "MC dropout, BO (B)": _row(
        "2.40±0.04 2.97±0.02 1.72±0.01 -0.97±0.00 -3.91±0.01 2.79±0.01 0.92±0.01 1.38±0.01"
    ),
    "MC dropout, grid (B)": _row(
        "2.40±0.04 2.93±0.02 1.21±0.01 -1.14±0.01 -4.45±0.00 2.80±0.01 0.93±0.01 1.25±0.01"
    ),
    "SGHMC, tuned (C)": _row("2.49±0.15 4.16±0.72 - - - - 1.29±0.28 1.75±0.19"),
    "SGHMC, scale-adapted (C)": _row("2.54±0.04 3.38±0.24 - - - - 1.04±0.17 1.11±0.08"),
    "HMPF": _row("2.17±0.07 2.71±0.03 - - - - 0.71±0.03 0.47±0.06"),
}
