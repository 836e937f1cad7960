"""A certificate that comes with a model was made for that model and its rules, or is left out."""

from __future__ import annotations

import warnings
from dataclasses import replace

import jax
import numpy as np
import pytest
from tests.lines import lines

import prbnn
from prbnn import (
    MLP,
    AtLeast,
    AtMost,
    Gaussian,
    ModelFileError,
    PRBNNRegressor,
    StudentT,
    load,
)
from prbnn.certify import Certificate, RuleCertificate
from prbnn.certify.fingerprints import of_draws, of_rule, of_weights_alone
from prbnn.errors import CertificateError, CertificateWarning
from prbnn.system.container import read, sealed

RULES = [
    AtLeast(-5, where={"x": (0, 1)}, name="floor"),
    AtMost("x + 9", name="cap", because="it is so"),
]
DRAWS = ((1.0, 1.0), (2.0, -0.5))


def certificate_of(posterior, rules, schema=2) -> Certificate:
    """As `certify` writes it, of draws that are all proved."""
    found = tuple(
        RuleCertificate(
            rule.label,
            "x in [0, 1]",
            "P" * len(posterior),
            0.0,
            (),
            1e-4,
            "boxes",
            0.0,
            claim=of_rule(rule, "x in [0, 1]", 1e-4) if schema == 2 else "",
        )
        for rule in rules
    )
    weights = of_draws(posterior) if schema == 2 else of_weights_alone(posterior)
    return Certificate(found, weights, "1", 0.0, schema)


@pytest.fixture(scope="module")
def model():
    x = np.linspace(0, 1, 20)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = PRBNNRegressor(
            MLP((3,)), RULES, tempering=0.2, steps=50, draws=20, random_state=0
        ).fit(x, x[:, 0])
    fitted.certificate_ = certificate_of(fitted.posterior_, fitted.solution_.rules)
    return fitted


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.prbnn"
    model.save(path)
    return path


def rewritten(path, change):
    """The file with its record and tensors changed, and a checksum that fits."""
    record, tensors = read(path)
    tensors = {name: np.array(part) for name, part in tensors.items()}
    change(record, tensors)
    path.write_bytes(sealed(record, tensors))
    return path


@pytest.mark.parametrize("data", [True, False])
def test_a_certificate_comes_back_with_its_model(model, tmp_path, data):
    path = tmp_path / "model.prbnn"
    model.save(path, data=data)
    again = load(path)
    assert again.certificate_ == model.certificate_ and again.certificate_.holds
    assert again.certificate_.mismatch(again.posterior_, again.solution_.rules) == ""


def other_rule(record, tensors):
    record["knowledge"]["rules"][0]["rule"]["at_least"] = -4.0


def other_strength(record, tensors):
    record["knowledge"]["rules"][1]["rule"]["strength"] = {"hard": 0.1}


def other_region(record, tensors):
    record["knowledge"]["rules"][0]["rule"]["where"] = {"x": [0, 2]}


def other_weights(record, tensors):
    tensors["draws/network/layers.0.weight"][3] += 0.5


def other_noise(record, tensors):
    tensors["draws/likelihood"][0] += 0.5


def other_units(record, tensors):
    record["scaling"]["output_sd"] = [2.0]


def other_table(record, tensors):
    tensors["data/rows"][0] += 0.25


def other_words(record, tensors):
    record["certificate"]["rules"][0]["region"] = "everywhere"


def fewer_verdicts(record, tensors):
    record["certificate"]["rules"][0]["verdicts"] = "P3"


def earlier_version(record, tensors):
    record["certificate"]["schema"] = 1


@pytest.mark.parametrize(
    "change",
    [
        other_rule,
        other_strength,
        other_region,
        other_weights,
        other_noise,
        other_units,
        other_table,
        other_words,
        fewer_verdicts,
        earlier_version,
    ],
)
def test_a_certificate_of_something_else_is_left_out_with_a_warning(saved, change):
    rewritten(saved, change)
    with pytest.warns(CertificateWarning, match=r"certificate is left out.*model.certify\(\)"):
        again = load(saved)
    assert again.certificate_ is None
    assert again.predict(np.array([[0.5]])).shape == (1,)


def test_a_certificate_of_an_earlier_version_is_compared_and_then_made_again(model):
    posterior, rules = model.posterior_, model.solution_.rules
    earlier = certificate_of(posterior, rules, schema=1)
    assert Certificate.from_plain(earlier.to_plain()) == earlier
    assert earlier.is_of(posterior) and "earlier version" in earlier.mismatch(posterior, rules)
    moved = replace(posterior, draws=posterior.draws + np.float32(1e-3))
    assert not earlier.is_of(moved) and "other weights" in earlier.mismatch(moved, rules)


def test_loading_a_certificate_beside_its_posterior_compares_them(tmp_path):
    posterior = lines(DRAWS)
    path = tmp_path / "certificate.json"
    certificate_of(posterior, RULES).save(path)
    assert Certificate.load(path, posterior, RULES).holds
    with pytest.raises(CertificateError, match="other weights.*certify again"):
        Certificate.load(path, lines(DRAWS[::-1]), RULES)
    with pytest.raises(CertificateError, match="another rule 'floor'.*certify again"):
        Certificate.load(path, posterior, [RULES[0].soft(1.0), RULES[1]])
    with pytest.raises(CertificateError, match="'cap' that the model does not have"):
        Certificate.load(path, posterior, RULES[:1])


def test_a_fingerprint_changes_with_all_that_a_claim_depends_on():
    posterior = lines(DRAWS)
    network = MLP(hidden=(1,)).build(jax.random.key(0), 1, 1)
    wide = np.zeros((2, 4), np.float32)
    tanh = replace(network, activation="tanh")
    found = [
        posterior,
        replace(posterior, likelihood=StudentT(4.0)),
        replace(posterior, likelihood=Gaussian(0.2)),
        replace(posterior, draws=posterior.draws.astype(np.float64)),
        replace(posterior, likelihood_parameters=np.zeros((2, 1), np.float32)),
        replace(posterior, scaling=replace(posterior.scaling, output_sd=np.array([3.0]))),
        replace(posterior, network=network, draws=wide),
        replace(posterior, network=tanh, draws=wide),
    ]
    assert len({of_draws(each) for each in found}) == len(found)
    assert of_draws(posterior) == of_draws(lines(DRAWS))


def test_a_rule_s_fingerprint_is_of_what_it_says_and_not_of_how_it_is_kept():
    def first(x):
        return x["x"] + 1.0

    def second(x):
        return x["x"] + 2.0

    second.__qualname__ = first.__qualname__
    said = [
        AtLeast(1, name="a"),
        AtLeast(1, name="b"),
        AtLeast(2, name="a"),
        AtMost(1, name="a"),
        AtLeast(1, name="a", of="y"),
        AtLeast(1, name="a", margin=0.5),
        AtLeast(1, name="a", where={"x": (0, 1)}),
        AtLeast(1, name="a").hard(0.1),
        AtLeast(first, name="a"),
        AtLeast(second, name="a"),
    ]
    assert len({of_rule(rule, "r", 0.1) for rule in said}) == len(said)
    assert len({of_rule(said[0], *rest) for rest in (("r", 0.1), ("s", 0.1), ("r", 0.2))}) == 3
    same = [AtLeast(1.0, name="a", because="so"), AtLeast(np.float64(1), name="a")]
    assert {of_rule(rule, "r", 0.1) for rule in same} == {of_rule(said[0], "r", 0.1)}


def nan_weight(record, tensors):
    tensors["draws/network/layers.1.bias"][2] = np.nan


def infinite_raw(record, tensors):
    tensors["draws/likelihood"][1] = np.inf


def zero_scale(record, tensors):
    record["scaling"]["input_scale"] = [0.0]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (nan_weight, "'draws/network/layers.1.bias' holds 1 of 20"),
        (infinite_raw, "'draws/likelihood' holds 1 of 20"),
        (zero_scale, "scaling 'input_scale'"),
    ],
)
def test_numbers_that_are_none_are_refused_by_name(saved, change, name):
    rewritten(saved, change)
    with pytest.raises(ModelFileError, match=name):
        prbnn.load(saved)
