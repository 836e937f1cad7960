"""Pages show what the records hold, and nothing that was measured stands outside their markers."""

import re

import pytest

from prbnn_studies.pages import MARKER, filled, pages, read_records
from prbnn_studies.records import Record

RECORDS = read_records()
PAGES = list(pages())
ROW = re.compile(r"^\|.*\|$", flags=re.MULTILINE)
# what stands in cells of measured numbers: 0.0018, .045, 6.2e-4, 11 %, and no words
MEASURED = re.compile(r"\d*\.\d+|\d+e-\d+|\d+ ?%")
CODE = re.compile(r"`[^`]*`")
FENCED = re.compile(r"^```.*?^```$", flags=re.DOTALL | re.MULTILINE)


def name(page):
    return page.name


def shown_by(page):
    return list(MARKER.finditer(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_shows_what_its_records_hold(page):
    text = page.read_text()
    assert filled(text, RECORDS) == text, "run `make tables`"


@pytest.mark.parametrize("page", [page for page in PAGES if shown_by(page)], ids=name)
def test_another_number_in_a_page_is_noticed(page):
    """Every digit between markers: with another one in its place the page differs from the records."""
    text = page.read_text()
    for marker in shown_by(page):
        for digit in re.finditer(r"\d", marker["shown"]):
            place = marker.start("shown") + digit.start()
            changed = text[:place] + str((int(digit[0]) + 1) % 10) + text[place + 1 :]
            part = changed[marker.start() : marker.end()]
            assert filled(part, RECORDS) != part


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tables_of_measured_numbers_come_from_records(page):
    text = CODE.sub("", FENCED.sub("", MARKER.sub("", page.read_text())))
    cells = [cell for row in ROW.findall(text) for cell in row.split("|")]
    assert [cell for cell in cells if is_measured(cell)] == []


def is_measured(cell):
    return bool(MEASURED.search(cell)) and not re.search("[a-z]", re.sub(r"\de-\d", "", cell))


def test_cells_of_measured_numbers_are_told_from_words():
    for cell in ("0.0018 (0.232)", "6.22e-4 -> 6.23e-4", "11%", "-7.4 / -6.8", " .045 "):
        assert is_measured(cell)
    for cell in ("1 % go-arounds", "two cores", "87", "x in [0, 0.5]"):
        assert not is_measured(cell)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_says_where_its_tables_come_from(page):
    shown = shown_by(page)
    told = {own for one in shown if one["what"] == "origin" for own in one["names"].split("+")}
    tables = {own for one in shown if not one["format"] for own in one["names"].split("+")}
    assert tables == told


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_markers_are_whole_and_where_markdown_takes_them(page):
    """A number's marker that begins a line would be a block of its own, and end its paragraph."""
    text = page.read_text()
    assert text.count("<!-- record:") == text.count("<!-- end -->") == len(shown_by(page))
    for marker in shown_by(page):
        begins_a_line = marker.start() == 0 or text[marker.start() - 1] == "\n"
        assert begins_a_line == (marker["format"] is None), marker[0]


def test_every_record_is_shown():
    shown = {own for page in PAGES for one in shown_by(page) for own in one["names"].split("+")}
    assert set(RECORDS) == shown


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_record_says_what_produced_it(record):
    assert re.fullmatch(r"[0-9a-f]{7}", record.commit), "measure a commit, not a changed tree"
    assert re.match(r"prbnn study |python benchmarks/", record.command)
    assert record.machine
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record.date)
    assert record.results


def test_names_that_are_not_there_are_told():
    records = {"demo": Record("", "", "", "", {"mse": 1.0})}
    with pytest.raises(KeyError, match="no records/other.json"):
        filled("<!-- record: other mse : .1f --><!-- end -->", records)
    with pytest.raises(KeyError, match="has no block 'table'"):
        filled("<!-- record: demo table -->\n<!-- end -->", records)
