"""What the parameters and attributes of the estimators mean, written once for all of them.

Every constructor states its own signature, which scikit-learn's ``get_params`` and editors read;
`documented` writes the sections of the class docstring from that signature and from the texts here.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import TypeVar

from prbnn.inference import ENGINES

Kind = TypeVar("Kind", bound=type)

PARAMETERS = {
    "network": "declaration such as `MLP`, or a factory (key, inputs, outputs); a smooth one, "
    'MLP((100,), "gelu"), if None',
    "knowledge": "list of rules, in the units and column names of the data",
    "inference": ", ".join(f'"{name}"' for name in ENGINES) + ", or an engine with its options; "
    '"auto" is Conjugate(draws=1, members=4, relevance=True) for up to 512 rows of numbers with normal '
    "noise, the same in all rows, where no row is censored and hard rules can be kept by projection, and "
    '"bbb" for all else; "bbb" is BayesByBackprop(draws=2, members=4): four posteriors trained side by '
    "side from different starts, and mixed; BayesByBackprop() is one",
    "noise": '"learned", "by input", or a standard deviation in the units of the target',
    "likelihood": "distribution of the observations around the prediction, such as `StudentT()` for "
    "data with outliers or `Poisson()` for counts; Gaussian(noise) if None",
    "prior": "prior over weights; LayerNormal() if None",
    "tempering": 'weight of the KL term; "auto" chooses it by the log density of held-out rows, or is 1 '
    "for samplers and `Conjugate`, which need none",
    "scaling": '"standard", "minmax" or "none"',
    "steps": "number of training steps; the default of the engine if None",
    "batch_size": "rows per step; None uses all rows, or 1/64 of more than 2,048 (256 to 1,024)",
    "points": "number of points of its region at which a rule is evaluated per step",
    "rejection": "under pressure, the fraction of drawn functions that may break a hard rule and be "
    "rejected; a smaller fraction means stronger enforcement in training and narrower bands; the default "
    "of the engine if None",
    "draws": "number of functions that are stored",
    "prove": "True stores only draws that are proved to obey the hard rules on the sets that "
    "certificate_ names (at training rows, for columns that a rule does not name), and continues "
    "training with counterexamples where most draws are not proved; a number is the time limit in "
    "seconds",
    "enforce": 'how hard rules are kept: "pressure" on the posterior until few draws break one; '
    '"projection" of each draw that breaks one to the nearest function that obeys; "construction" builds '
    "limits and shapes into the network, which then obeys them for all weights, and raises where that "
    'cannot be done. "auto", for a smooth `MLP` over a table and an engine that can always draw more: '
    "construction where all hard rules are numbers as limits that hold everywhere; else training holds "
    "the mean violation of each hard rule to 0.01 of the rule's unit, and draws that break one are moved "
    'as by "projection"; where fewer than half can be, the fit is repeated, at last under pressure. For '
    'all other networks and engines "auto" is pressure',
    "categories": "columns that take only the values seen in the data; boolean and categorical "
    "columns of a data frame need not be named. Every other column is a number: rules are evaluated "
    "and proved between its values, too",
    "output_names": "names of the outputs, for `of=`; taken from the data where it has them",
    "random_state": "seed",
    "verbose": "True shows progress; None shows it in a terminal",
}
ATTRIBUTES = {
    "posterior_": "stored draws; each of them obeys the rules that are hard without a tolerance, at "
    "all points checked, unless result_ says that acceptance is too low",
    "raw_posterior_": "raw draws, before any was moved or rejected",
    "acceptance_": "fraction of raw draws that obey every hard rule, after projection where draws are "
    "moved",
    "knowledge_report_": "table of the rules",
    "audit_": "training rows that break a rule by more than noise explains",
    "result_": "how the fit ended: status, message, the rules concerned, and warnings",
    "certificate_": "what was proved of the stored draws; None unless ``prove``",
    "history_": "objective, violations and dual variables during training",
    "settings_": "the parameters at the time of the fit, the defaults used for None, and the seed",
    "environment_": "versions of the libraries, machine and precision that the fit was computed with",
    "solution_": "the `Solution` that the functional `fit` returns",
    "tempering_": "weight of the KL term that was used",
    "tempering_choice_": 'how "auto" chose it; None where it was given, or the engine needs none',
    "output_names_": "names of the outputs",
    "n_features_in_": "number of input columns",
    "feature_names_in_": "their names, where the data had names",
}
# placeholder in a class docstring, replaced by the two sections
SECTIONS = "{parameters and attributes}"


def documented(
    parameters: Mapping[str, str] | None = None, attributes: Mapping[str, str] | None = None
) -> Callable[[Kind], Kind]:
    """Decorator that puts the sections Parameters and Attributes into an estimator's docstring.

    ``parameters`` and ``attributes`` are the texts that the estimator does not share with the others.
    A parameter of the signature without a text raises a KeyError on import.
    """

    def decorate(kind: Kind) -> Kind:
        texts, own = {**PARAMETERS, **(parameters or {})}, dict(attributes or {})
        taken = {name: texts[name] for name in inspect.signature(kind).parameters}
        sections = (
            f"{_section('Parameters', taken)}\n\n{_section('Attributes', own | ATTRIBUTES | own)}"
        )
        kind.__doc__ = inspect.cleandoc(kind.__doc__ or "").replace(SECTIONS, sections)
        return kind

    return decorate


def _section(title: str, entries: Mapping[str, str]) -> str:
    lines = [
        textwrap.fill(f"{name} : {text}", 100, subsequent_indent="    ", break_on_hyphens=False)
        for name, text in entries.items()
    ]
    return "\n".join((title, "-" * len(title), *lines))
