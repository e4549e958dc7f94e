"""A page says what the release says, needs nothing else, and a browser shows all of it."""

import re
import subprocess
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest
from dpkit_command_report.page import bars, facts, page
from typer.testing import CliRunner

from dpkit_core import Budget, Column, Release, Schema, compose
from dpkit_core.cli.app import app
from dpkit_core.release.kinds import OpaqueModel

EMPTY = {"meta", "rect"}


class Read(HTMLParser):
    """Text, attributes, and whether each element ends where it should."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.attributes, self.headings = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, *attribute) for attribute in attributes]
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(params=["release", "seeded", "refused"])
def any_release(request):
    return request.getfixturevalue(request.param)


def test_it_says_what_was_asked_spent_released_and_assumed(release):
    read = Read(page(release, "release.json"))
    assert "Private, and confirmed." in read.text
    assert "at most epsilon 2 and delta 1e-06" in read.text
    assert "a number from 0 to 300" in read.text
    assert "one of Bonn, Kiel" in read.text
    for name in release.selected:
        assert name in read.texts
    for sentence in release.certificate.in_words():
        assert sentence.removeprefix("Assumption: ") in read.text
    for name, value in release.coefficients().items():
        assert name in read.texts
        assert f"{value:.6g}" in read.texts
    assert "dpkit verify release.json" in read.text


def test_it_says_how_sure_the_line_is_or_why_that_cannot_be_said(release, data):
    assert "there are no intervals" not in Read(page(release, "release.json")).text
    for row in release.intervals().rows:
        assert " ".join(row) in Read(page(release, "release.json")).text
    plan = compose(regressor="mean").plan(release.certificate.schema, Budget(2.0))
    assert "There are no intervals for this release" in page(plan.run(data), "release.json")


def test_dates_and_rules_for_missing_values_are_facts():
    schema = Schema(
        (Column("day", "date", date(2020, 1, 1), date(2020, 12, 31)), Column("size", missing="drop")),
        Column("y"),
    )
    says = {fact.name: fact.says for fact in facts(schema)}
    assert says["day"] == "a date from 2020-01-01 to 2020-12-31"
    assert says["size"].startswith("a number; no bounds are public; ")


def test_names_of_columns_are_text_and_no_markup(release):
    text = page(release, "<script>.json")
    assert "<i>" not in text
    assert "<script" not in text
    assert "&lt;i&gt;city&lt;/i&gt;" in text


def test_a_bar_is_as_long_as_the_cost_that_it_shows(release):
    shown = {bar.name: bar for bar in bars(release.certificate)}
    assert list(shown) == ["selection", "regression", "together", "allowed"]
    assert shown["allowed"].fraction == 1.0
    for bar in shown.values():
        assert bar.fraction == pytest.approx(float(bar.epsilon) / 2.0, abs=1e-3)
    assert shown["selection"].fraction + shown["regression"].fraction >= shown["together"].fraction
    assert f'<rect width="{shown["selection"].percent}%"' in page(release, "release.json")


def test_a_release_that_is_not_private_says_so_first(seeded):
    text = page(seeded, "release.json")
    assert '<div class="verdict bad">' in text
    assert "Not private." in Read(text).text
    assert "Private, and confirmed" not in text


def test_a_release_that_claims_too_little_is_not_confirmed(release):
    certificate = attrs.evolve(release.certificate, epsilon=release.certificate.epsilon / 2)
    text = page(attrs.evolve(release, certificate=certificate), "release.json")
    assert "Not confirmed." in text
    assert "Private, and confirmed" not in text


def test_a_refusal_says_why(refused):
    read = Read(page(refused, "release.json"))
    assert "Why there is no model" in read.texts
    assert refused.refusal.rstrip(".") in read.text


def test_a_model_that_nothing_can_read_has_its_page(release):
    other = attrs.evolve(release, selected=(), model=OpaqueModel({"kind": "step"}))
    assert "step; see the release file" in Read(page(other, "release.json")).text


def test_nothing_is_loaded_and_nothing_runs(any_release):
    text = page(any_release, "release.json")
    assert not re.search(r"https?:|<script|<link|<img|url\(|@import|\son\w+=", text)
    assert "default-src 'none'" in text


def test_headings_are_in_order_and_pictures_have_words(any_release):
    read = Read(page(any_release, "release.json"))
    assert read.headings[0] == 1
    assert set(read.headings[1:]) == {2}
    tags = [tag for tag, name, _ in read.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(tags) == len(bars(any_release.certificate))
    assert ("html", "lang", "en") in read.attributes


def dumped(browser: Path, file: Path, width: int) -> tuple[str, str]:
    """Return the page after the browser has laid it out, and what it said meanwhile."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--window-size={width},900", "--virtual-time-budget=2000", "--dump-dom", file.as_uri()]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("width", [500, 1400])  # headless Chromium opens no narrower window than 500
def test_a_browser_shows_it_without_errors_requests_or_overflow(browser, any_release, tmp_path, width):
    text = page(any_release, "release.json")
    measure = (
        "<script>const root = document.documentElement;"
        "document.title = [root.clientWidth, root.scrollWidth,"
        " performance.getEntriesByType('resource').length].join(' ')</script></body>"
    )
    opened = text.replace("default-src 'none'; ", "default-src 'none'; script-src 'unsafe-inline'; ")
    file = tmp_path / "page.html"
    file.write_text(opened.replace("</body>", measure), encoding="utf-8")
    shown, said = dumped(browser, file, width)
    client, scroll, requests = map(int, re.search(r"<title>(\d+) (\d+) (\d+)</title>", shown).groups())
    assert scroll <= client
    assert requests == 0
    assert "CONSOLE" not in said


@pytest.mark.slow
def test_a_telephone_shows_it_without_overflow(browser, release, tmp_path):
    sizes = "[document.documentElement.clientWidth, document.documentElement.scrollWidth].join(' ')"
    text = page(release, "release.json").replace("style-src", "script-src 'unsafe-inline'; style-src")
    framed = text.replace("</body>", f"<script>parent.document.title = {sizes}</script></body>")
    escaped = framed.replace("&", "&amp;").replace('"', "&quot;")
    outer = tmp_path / "outer.html"
    outer.write_text(
        f'<title></title><iframe width="400" height="800" style="border:0" srcdoc="{escaped}"></iframe>'
    )
    shown, _ = dumped(browser, outer, 1400)
    client, scroll = map(int, re.search(r"<title>(\d+) (\d+)</title>", shown).groups())
    assert scroll <= client <= 400  # a scroll bar takes some of it


def invoke(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_the_command_writes_beside_the_release_and_replaces_nothing(release, tmp_path):
    path = tmp_path / "mine.json"
    release.write(path)
    assert invoke(path).exit_code == 0
    written = tmp_path / "mine.html"
    assert written.read_text(encoding="utf-8") == page(Release.read(path), "mine.json")
    assert invoke(path).exit_code == 2
    assert invoke(path, "--force").exit_code == 0
    assert invoke(path, "-o", tmp_path / "other.html").exit_code == 0
