"""The report page: its structure, its numbers, what it does with strange names, and how it looks."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import numpy as np
import pandas as pd
import pytest
from tests.marks import quick
from tests.report import plant
from tests.report.browser import Browser, chromium

from prbnn import MLP, AtLeast, AtMost, BayesByBackprop, Increasing, PRBNNClassifier, PRBNNRegressor
from prbnn.assessment import metrics
from prbnn.assessment.audit import audit_of
from prbnn.assessment.scores import RegressionScores
from prbnn.certify import RuleCertificate
from prbnn.certify.certificate import Certificate
from prbnn.errors import DataError
from prbnn.fitting.result import Result
from prbnn.report.findings import Findings, findings_of
from prbnn.report.page import Subject, html_page, write_report
from prbnn.report.profiles import limits, path, profile
from prbnn.report.tables import audit_table, made_table
from prbnn.report.verdict import headline, tiles, verdict

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SECTIONS = (
    "verdict",
    "fit",
    "knowledge",
    "training",
    "calibration",
    "plain",
    "surprises",
    "made",
)
QUICK = {
    "network": MLP((8,)),
    "inference": BayesByBackprop(draws=2),
    "tempering": 0.2,
    "steps": 350,
    "draws": 40,
    "random_state": 0,
}
EVIL = "<script>alert('x')</script>"
NO_PRICE = "A hard rule without a tolerance has no price"


class Page(HTMLParser):
    """What a browser would read: tags with their attributes, text, machine-readable numbers."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.data: list[float] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self.data.append(float(dict(attrs)["value"]))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def subject() -> Subject:
    inputs, power, held_out = plant.plant(120)
    frame = pd.DataFrame(inputs, columns=plant.COLUMNS)
    training, targets = frame[~held_out], pd.Series(power[~held_out], name="power")
    model = PRBNNRegressor(knowledge=plant.knowledge(), **QUICK).fit(training, targets)
    return Subject(
        model,
        PRBNNRegressor(**QUICK).fit(training, targets),
        inputs,
        power,
        held_out,
        "Plant 7",
        plant.UNITS,
        "prbnn fit plant.csv --target power",
        ("3 rows were dropped & forgotten",),
    )


@pytest.fixture(scope="module")
def folder(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(subject, tmp_path_factory.mktemp("report")).parent


@pytest.fixture(scope="module")
def found(subject: Subject) -> Findings:
    return findings_of(replace(subject, plain=None))


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


@pytest.fixture(scope="module")
def wide() -> Subject:
    """Twelve columns with names that are code, two outputs, nothing held out, no plain network."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(600, 12))
    names = [EVIL, '"quoted" & <b>', "$x$", "ünïcode", *(f"column {k}" for k in range(8))]
    targets = np.column_stack([2 * inputs[:, 5], inputs[:, 0]]) + generator.normal(size=(600, 2))
    rule = AtMost(50, of="first", name=f"{EVIL} rule", because="</td><img src=x>")
    model = PRBNNRegressor(knowledge=[rule], output_names=["first", EVIL], **QUICK)
    model.fit(pd.DataFrame(inputs, columns=names), targets)
    return Subject(
        model, None, inputs, targets, np.zeros(600, bool), f"{EVIL} & more", {EVIL: "</style>"}
    )


@pytest.fixture(scope="module")
def wide_text(wide: Subject) -> str:
    return html_page(wide)


def test_every_section_is_there_and_in_order(page: Page) -> None:
    assert tuple(section["id"] for section in page.named("section")) == SECTIONS
    linked = [link["href"] for link in page.named("a")]
    assert linked == [f"#{name}" for name in SECTIONS[1:]]


@pytest.mark.parametrize("which", ["text", "wide_text"])
def test_nothing_is_loaded_from_elsewhere(which: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(which)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith("#"), attributes
    assert not re.search(r"@import|url\((?!#)", text)


@pytest.mark.parametrize("which", ["text", "wide_text"])
def test_ids_are_unique_and_references_lead_to_them(
    which: str, request: pytest.FixtureRequest
) -> None:
    page = Page(request.getfixturevalue(which))
    ids = [str(attributes["id"]) for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for value in attributes.values():
            for name in re.findall(r"url\(#([^)]+)\)", value or ""):
                assert name in ids
        if (attributes.get("href") or "").startswith("#"):
            assert str(attributes["href"])[1:] in ids


def test_every_plot_says_what_it_shows(page: Page, text: str) -> None:
    plots = [plot for plot in page.named("svg") if plot.get("class") == "plot"]
    assert len(plots) == len(page.named("figure")) >= 10
    for plot in plots:
        title, description = str(plot["aria-labelledby"]).split()
        assert re.search(rf'<title id="{title}">[^<]+</title>', text)
        assert re.search(rf'<desc id="{description}">[^<]+</desc>', text)
    assert "power [kW]" in page.text and "irradiance [W/m²]" in page.text


def test_tables_have_headings(page: Page) -> None:
    assert len(page.named("table")) == len(page.named("caption")) == 6
    assert all(cell["scope"] in ("row", "col") for cell in page.named("th"))


def test_numbers_are_those_of_the_model(subject: Subject, page: Page) -> None:
    held, model, plain = subject.held_out, subject.model, subject.plain
    rows, truth = pd.DataFrame(subject.inputs[held], columns=plant.COLUMNS), subject.targets[held]
    for each in (model, plain):
        assert metrics.rmse(truth, each.predict(rows)) in page.data
        assert metrics.crps(truth, each.sample(rows)) in page.data
    low, high = model.predict_quantiles(rows, (0.05, 0.95))
    inside = metrics.coverage(truth, low, high)
    assert inside in page.data
    assert f"{round(inside * held.sum())} of {held.sum()} held-out rows" in page.text
    for rule in model.knowledge_report_:
        assert {rule.violation, rule.raw_share, rule.stored_share} <= set(page.data)
        prices = {rule.price, rule.bound_price} - {None}
        assert prices <= set(page.data)
        assert bool(prices) == (rule.strength != "hard")
    for rule in subject.rules:
        assert rule.label in page.text and (rule.because or "") in page.text


def test_the_page_says_how_it_was_made(subject: Subject, page: Page) -> None:
    for said in (
        "prbnn fit plant.csv --target power",
        "3 rows were dropped & forgotten",
        subject.fingerprint,
        "MLP(hidden=(8,)",
        "BayesByBackprop(draws=2",
        "kept by pressure",
        f"jaxlib {version('jaxlib')}",
        f"blackjax {version('blackjax')}",
        f"python {python_version()}",
        subject.model.environment_["processor"],
    ):
        assert said in page.text


def test_the_page_names_the_seed_that_was_drawn_and_the_versions_of_the_fit() -> None:
    """Not those installed where the page is written, and not `random_state`, which may be None."""
    x = np.linspace(0, 1, 20)[:, None]
    model = PRBNNRegressor(MLP((2,)), tempering=0.2, steps=5, draws=5).fit(x, x[:, 0])
    model.environment_ |= {"jax": "0.0.1", "processor": "a <quantum> computer"}
    made = made_table(Subject(model, None, x, x[:, 0], np.zeros(20, bool), "A line"))
    assert f"<td>{model.settings_.seed}</td>" in made
    assert "jax 0.0.1" in made
    assert "a &lt;quantum&gt; computer" in made


def test_limits_that_auto_built_into_the_usual_network_are_said_to_be() -> None:
    x = np.linspace(0, 1, 30)[:, None]
    model = PRBNNRegressor(
        knowledge=[AtLeast(0)],
        inference="bbb",
        tempering=0.2,
        steps=20,
        draws=10,
        random_state=0,
    )
    subject = Subject(model.fit(x, x[:, 0]), None, x, x[:, 0], np.zeros(30, bool), "A line")
    made = made_table(subject)
    assert "kept by construction" in made
    assert "MLP(hidden=(100,), activation=&#x27;gelu&#x27;)" in made


def test_the_page_shows_no_price_of_hard_rules_without_a_tolerance(
    subject: Subject, page: Page, text: str
) -> None:
    assert NO_PRICE in page.text
    hard = [rule for rule in subject.model.knowledge_report_ if rule.strength == "hard"]
    assert text.count("<td>–</td><td>–</td>") == len(hard) == 4
    assert not {rule.dual for rule in hard} & set(page.data)


def test_a_fingerprint_follows_the_numbers(subject: Subject) -> None:
    other = subject.inputs.copy()
    other[0, 0] += 1e-9
    assert replace(subject, inputs=other).fingerprint != subject.fingerprint
    assert replace(subject, title="another").fingerprint == subject.fingerprint


def test_every_plot_is_a_picture_too(folder: Path, page: Page) -> None:
    pictures = sorted(path.name for path in folder.glob("*.png"))
    assert len(pictures) == len(page.named("figure"))
    assert "with-knowledge.png" in pictures
    assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in pictures)


def test_the_same_subject_gives_the_same_page(subject: Subject, text: str) -> None:
    assert html_page(subject) == text


def test_what_the_user_wrote_is_text_and_nothing_else(wide_text: str) -> None:
    page = Page(wide_text)
    for said in (f"{EVIL} & more", f"{EVIL} rule", '"quoted" & <b>', "$x$", "ünïcode", "</style>"):
        assert said in page.text
    assert "</td><img src=x>" in page.text
    assert wide_text.count("</style>") == 1
    assert "No rows were held out" in page.text and "No plain network" in page.text


def test_many_columns_make_no_large_page(wide: Subject, wide_text: str) -> None:
    assert len(wide_text.encode()) < 3_000_000
    # the two columns that matter come first
    assert re.findall(r"first along ([^<]+)</p>", wide_text)[0] == wide.column_names[5]
    assert {way.column for way in findings_of(wide).profiles[:2]} == {5, 0}


def test_bounds_are_drawn_where_they_hold_and_depend_on_the_input_alone(subject: Subject) -> None:
    columns = subject.posterior.columns
    way = profile(subject.posterior, path(columns, subject.rules, 0), 0)
    assert way.values[-1] == 1200  # as far as the rules' region reaches
    rules = [
        AtMost("irradiance / 10", where={"irradiance": (100, 500)}),
        AtMost("temperature"),
        AtLeast(0, where={"derate": 1}),
        Increasing("irradiance"),
    ]
    ((x, line),) = limits(rules, columns, way, 0)
    assert x.min() >= 100 and x.max() <= 500
    np.testing.assert_allclose(line, x / 10)


def test_observed_rows_that_break_rules_are_counted_within_their_region(
    subject: Subject, found: Findings
) -> None:
    power, sun = subject.targets, subject.inputs[:, 0]
    expected = int(np.sum((power > 104) & (sun >= 60)))
    places = [rule.label for rule in subject.rules].index("below nameplate")
    assert found.rows_breaking[places] == (expected, int(np.sum(sun >= 60)))


def test_the_audit_lists_training_rows_by_their_numbers_in_the_file(
    subject: Subject, page: Page
) -> None:
    assert subject.model.audit_.rows == ()
    assert "no training row breaks a rule by more than noise explains" in page.text
    training = np.flatnonzero(~subject.held_out)
    bad = next(row for row in range(5, 40) if subject.inputs[training[row], 0] > 100)
    columns = subject.posterior.columns
    targets = columns.targets.copy()
    targets[bad] = 500.0
    spoiled = replace(columns, targets=targets)
    found = audit_of(subject.rules, spoiled, noise=plant.NOISE)
    assert bad in found["below nameplate"].rows
    table = audit_table(replace(subject, rows=1000 + np.arange(120)), list(found))
    assert f"{1000 + training[bad]:,}" in table
    assert "below nameplate" in table


def test_the_worst_row_is_the_one_that_was_spoiled(subject: Subject) -> None:
    targets = subject.targets.copy()
    targets[17] = 500.0
    worst = findings_of(replace(subject, targets=targets, plain=None)).worst[0]
    assert worst.place == 17
    assert "below nameplate" in worst.broken


def test_a_failed_fit_is_said_first(subject: Subject, found: Findings) -> None:
    model, before = subject.model, subject.model.result_
    try:
        model.result_ = Result("acceptance too low", "only 1 % obey", ("below nameplate",))
        mood, line = headline(subject, verdict(subject, found))
        assert (mood, line[:10]) == ("bad", "Not to be ")
        model.result_ = Result("converged")
        assert verdict(subject, found)[0].mood == "good"
        model.result_ = Result("converged", warnings=("it collapsed: it explains nothing",))
        fit, warning = verdict(subject, found)[:2]
        assert (fit.mood, warning.mood) == ("good", "caution")
        assert warning.text == "It collapsed: it explains nothing."
        assert warning.brief == "it collapsed"
        causes = "it collapsed: it explains nothing. Likely causes, in order: this, that; try 1"
        model.result_ = Result("converged", warnings=(causes,))
        warning = verdict(subject, found)[1]
        assert warning.text == "It collapsed: it explains nothing."
        assert warning.remedy == "Likely causes, in order: this, that; try 1."
    finally:
        model.result_ = before


def test_a_rule_that_a_certificate_leaves_undecided_is_named(
    subject: Subject, found: Findings
) -> None:
    def certificate(verdicts: str) -> Certificate:
        rule = RuleCertificate("standby", "x in [0, 1]", verdicts, 0.1, (), 1e-4, "boxes", 1.0)
        return Certificate((rule,), "", "", 1.0)

    proved = replace(subject, certificate=certificate("PPP"))
    assert verdict(proved, found) == verdict(subject, found)
    remark = verdict(replace(subject, certificate=certificate("PPU")), found)[1]
    assert (remark.mood, remark.brief) == ("caution", "the certificate is undecided")
    assert "'standby' is neither proved nor refuted for 1 of 3 draws." in remark.text
    assert remark.remedy.startswith("Likely causes, in order: too little time")


def test_a_hard_rule_that_stored_functions_break_is_bad_news(
    subject: Subject, found: Findings
) -> None:
    model, before = subject.model, subject.model.knowledge_report_
    tile = tiles(subject, found)[0]
    assert "hard ones by all" in tile.label
    met = int(tile.value.split()[0])
    broken = replace(before[0], stored_share=0.25, verdict="broken")
    try:
        model.knowledge_report_ = replace(before, rules=(broken, *before.rules[1:]))
        tile = tiles(subject, found)[0]
        assert (tile.value, tile.label) == (f"{met - 1} of 5", "rules met")
        remarks = [each for each in verdict(subject, found) if before[0].name in each.text]
        assert [(each.mood, bool(each.remedy)) for each in remarks] == [("bad", True)]
    finally:
        model.knowledge_report_ = before


def test_bands_that_are_too_narrow_are_named_with_a_remedy(
    subject: Subject, found: Findings
) -> None:
    assert isinstance(found.scores, RegressionScores)
    far = replace(found.scores.ranks, below=0 * found.scores.ranks.below + 0.99)
    narrow = replace(found, scores=replace(found.scores, ranks=far))
    assert any("too narrow" in each.text and each.remedy for each in verdict(subject, narrow))


@pytest.mark.parametrize("classes", quick([("no", "yes"), ("a", "b", "<c>")], ("a", "b", "<c>")))
def test_a_classifier_gets_probabilities(classes: tuple[str, ...]) -> None:
    generator = np.random.default_rng(0)
    dose = generator.uniform(0, 1, (150, 1))
    labels = np.array(classes)[np.minimum((len(classes) * dose[:, 0]).astype(int), 2)]
    held = np.arange(150) % 3 == 0
    rule = AtMost(0.95, of=classes[-1], name="never sure")
    model = PRBNNClassifier(knowledge=[rule], **QUICK).fit(dose[~held], labels[~held])
    two = len(classes) == 2
    plain = PRBNNClassifier(**QUICK).fit(dose[~held], labels[~held]) if two else None
    page = Page(html_page(Subject(model, plain, dose, labels, held, "Doses")))
    assert tuple(section["id"] for section in page.named("section")) == SECTIONS
    assert float(np.mean(model.predict(dose[held]) == labels[held])) in page.data
    chance = model.predict_proba(dose[held])
    truth = (labels[held][:, None] == model.classes_).astype(float)
    assert any(abs(metrics.log_loss(truth, chance) - found) < 1e-9 for found in page.data)
    assert f"P({classes[-1]})" in page.text
    assert NO_PRICE in page.text


def test_invalid_subjects_raise_with_a_remedy(subject: Subject) -> None:
    with pytest.raises(DataError, match="fitted model"):
        replace(subject, model=PRBNNRegressor())
    with pytest.raises(DataError, match="one target and one held_out value per row"):
        replace(subject, targets=subject.targets[:-1])
    with pytest.raises(DataError, match="no column or output 'irradiace'.*irradiance"):
        replace(subject, units={"irradiace": "W/m²"})
    spoiled = subject.inputs.copy()
    spoiled[3, 1] = np.nan
    with pytest.raises(DataError, match="'temperature'.*not finite"):
        replace(subject, inputs=spoiled)


@pytest.mark.skipif(chromium() is None, reason="no Chromium to look at the page with")
@pytest.mark.parametrize("which", ["text", "wide_text"])
def test_in_a_browser(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """No complaints, no requests, plots of a size, no sideways scrolling, two colour schemes."""
    path = tmp_path / "report.html"
    path.write_text(request.getfixturevalue(which), encoding="utf-8")
    seen = {}
    with Browser() as browser:
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
            browser.open(path, width, scheme=scheme)
            assert browser.complaints() == []
            assert browser.requests() == [path.as_uri()]
            sizes = browser.ask(
                "[...document.querySelectorAll('svg.plot')].map(plot => "
                "{ const box = plot.getBoundingClientRect(); return [box.width, box.height] })"
            )
            assert sizes and all(min(size) > 100 for size in sizes)
            assert browser.ask("document.documentElement.scrollWidth") == width
            tall = "[...document.querySelectorAll('svg.plot text')].map(t => "
            smallest = min(browser.ask(f"{tall}t.getBoundingClientRect().height)"))
            assert smallest > 7, "letters of plots must stay readable"
            seen[width, scheme] = browser.picture()
    assert seen[1280, "light"] != seen[1280, "dark"]
