"""A page says what the release says, needs nothing else, and a browser shows all of it."""

import math
import re
import subprocess
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest
from dpkit_cli.app import app
from dpkit_command_report.page import About, bars, facts, model_and_intervals, page
from dpkit_command_report.results import PictureScale, page_of_results
from typer.testing import CliRunner

from dpkit_core import (
    Account,
    Budget,
    Column,
    Ledger,
    Neighboring,
    Randomness,
    Release,
    Schema,
    compose,
    plan_evaluation,
)
from dpkit_core.data.columns import Unit
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import to_toml
from dpkit_core.privacy.budget import attack_accuracy
from dpkit_core.privacy.filters import filter_for
from dpkit_core.release.kinds import OpaqueModel

EMPTY = {"meta", "rect", "line", "circle"}


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
    for part in release.certificate.parts:
        for name, version in part.libraries.items():
            assert f"{name} {version}" in read.text


def test_it_says_how_sure_the_line_is_or_why_that_cannot_be_said(release, data):
    assert "there are no intervals" not in Read(page(release, "release.json")).text
    text = Read(page(release, "release.json")).text
    coefficients = release.coefficients()
    for name, low, high in release.intervals().rows:
        assert f"{name} {coefficients[name]:.6g} {low} {high}" in text  # one table, one set of coefficients
    plan = compose(regressor="mean").plan(release.certificate.schema, Budget(2.0))
    assert "There are no intervals for this release" in page(plan.run(data), "release.json")


def test_coefficients_of_categories_are_those_that_the_intervals_are_of(release, data):
    plan = compose(regressor="winsorized_least_squares").plan(release.certificate.schema, Budget(9.0, 1e-6))
    found = plan.run(data, randomness=Randomness.from_seed(1))
    table = model_and_intervals(found)
    told = {name: [float(cell) for cell in cells[:3]] for name, *cells in table.rows}
    one, other = (told[f"<i>city</i>={name}"][0] for name in ("Bonn", "Kiel"))
    assert one == pytest.approx(-other)
    assert all(low <= value <= high for value, low, high in told.values())
    assert one - other == pytest.approx(200, abs=60)
    assert other + told["(intercept)"][0] == pytest.approx(
        found.coefficients()["<i>city</i>=Kiel"] + found.coefficients()["(intercept)"], rel=1e-4
    )


@pytest.mark.slow
def test_how_good_the_model_is_comes_first(data, release):
    assert "How good it is" not in Read(page(release, "release.json")).text
    plan = compose(regressor="winsorized_least_squares").plan(
        release.certificate.schema, Budget(2.0, 1e-6), evaluate=0.2
    )
    scored = plan.run(data)
    text = Read(page(scored, "scored.json")).text
    assert text.index("How good it is") < text.index("What was asked")
    for sentence in scored.scored.sentences:
        assert sentence.replace("\u00a0", " ") in text


@pytest.mark.slow
def test_a_score_on_the_records_of_the_fit_is_not_said_to_be_of_others(data, release):
    pipeline = compose(regressor="winsorized_least_squares")
    for more, told in (({"evaluate": 0.2}, True), ({"in_sample": 0.3}, False)):
        plan = pipeline.plan(release.certificate.schema, Budget(2.0, 1e-6), **more)
        text = Read(page(plan.run(data), "scored.json")).text
        assert ("Those of the evaluation are of other records" in text) is told
        assert ("by the records that it was fitted to, with noise" in text) is not told


def test_a_later_score_is_shown_if_it_is_one_of_this_release(data, release):
    found = plan_evaluation(release, Budget(1.0, 1e-6)).run(data)
    text = Read(page(release, "release.json", About(evaluation=found))).text
    for sentence in found.scored.sentences:
        assert sentence.replace("\u00a0", " ") in text
    assert "It cost epsilon 1, delta 1e-06 more" in text
    both = 100 * attack_accuracy(release.certificate.epsilon + 1.0, 2e-6)
    assert f"at most {math.ceil(both)} ." in text
    other = compose(regressor="mean").plan(release.certificate.schema, Budget(2.0)).run(data)
    with pytest.raises(InvalidRelease, match="not one of this release"):
        page(other, "release.json", About(evaluation=found))
    with pytest.raises(InvalidRelease, match="not one of this release"):
        page(release, "release.json", About(evaluation=other))


def test_as_many_squares_are_marked_as_attackers_may_be_right(release):
    text = page(release, "release.json")
    certificate = release.certificate
    chance = 100 * attack_accuracy(certificate.epsilon, certificate.delta)
    picture = text[text.index('class="odds"') :]
    squares = picture[: picture.index("</svg>")]
    assert squares.count('class="chance"') == 50
    assert chance <= 50 + squares.count('class="told"') < chance + 1
    assert squares.count("<rect") == 100


def test_the_other_releases_of_the_table_are_those_of_its_account(data, release):
    schema, budget = release.certificate.schema, Budget(9.0, 1e-4)
    ledger = Ledger.in_memory()
    for name in ("mine", "another"):
        ledger.add(Account(name, schema, budget, filter_for("basic", budget)))
    mean = compose(regressor="mean")
    mean.plan(schema, Budget(0.25)).run(data, paid_by=ledger.payer("mine"))
    mean.plan(schema, Budget(0.125)).run(data, paid_by=ledger.payer("another"))
    last = mean.plan(schema, Budget(0.5)).run(data, paid_by=ledger.payer("mine"))
    read = Read(
        page(last, "release.json", About("price list", "data office", "today", None, (ledger, "mine")))
    )
    for words in ("Purpose price list", "Answers for it data office", "Date today"):
        assert words in read.text
    assert "0.25 released" in read.text
    assert "0.125 released" not in read.text
    assert read.text.count("(this one)") == 1
    assert "(this one) 0.5 released" in read.text
    assert "Account mine has spent epsilon 0.75 of 9" in read.text
    assert "Releases of the same table" not in Read(page(last, "release.json")).text


def test_it_says_whom_it_protects(release):
    assert "protecting one record that is added or removed" in Read(page(release, "release.json")).text
    added = Neighboring.ADD_OR_REMOVE_ONE
    schema = attrs.evolve(release.certificate.schema, neighboring=added, records=None, unit=Unit(("who",), 3))
    of_units = attrs.evolve(release, certificate=attrs.evolve(release.certificate, schema=schema))
    assert "protecting all records of one 'who'" in Read(page(of_units, "release.json")).text


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
    odds = 'class="odds"' in page(any_release, "release.json")
    assert len(tags) == len(bars(any_release.certificate)) + odds
    assert ("html", "lang", "en") in read.attributes


def dumped(browser: Path, file: Path, width: int) -> tuple[str, str]:
    """Return the page after the browser has laid it out, and what it said meanwhile."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--window-size={width},900", "--virtual-time-budget=2000", "--dump-dom", file.as_uri()]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout, done.stderr


@pytest.fixture
def any_text(request):
    if request.param == "results":
        return page_of_results(request.getfixturevalue("results"), "small")
    return page(request.getfixturevalue(request.param), "release.json")


@pytest.mark.first(2)
@pytest.mark.parametrize(  # headless Chromium opens no narrower window than 500
    ("any_text", "width"),
    [
        ("release", 500),
        ("release", 1400),
        ("seeded", 1400),
        ("refused", 500),
        ("results", 500),
        ("results", 1400),
    ],
    indirect=["any_text"],
)
def test_a_browser_shows_it_without_errors_requests_or_overflow(browser, any_text, tmp_path, width):
    text = any_text
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
@pytest.mark.parametrize("shows", ["release", "results"])
def test_a_telephone_shows_it_without_overflow(browser, release, results, tmp_path, shows):
    sizes = "[document.documentElement.clientWidth, document.documentElement.scrollWidth].join(' ')"
    text = page(release, "release.json") if shows == "release" else page_of_results(results, "small")
    text = text.replace("style-src", "script-src 'unsafe-inline'; style-src")
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


@pytest.mark.slow
def test_the_command_writes_beside_the_release_and_replaces_nothing(release, tmp_path):
    path = tmp_path / "mine.json"
    release.write(path)
    assert invoke(path).exit_code == 0
    written = tmp_path / "mine.html"
    assert written.read_text(encoding="utf-8") == page(Release.read(path), "mine.json")
    assert invoke(path).exit_code == 2
    assert invoke(path, "--force").exit_code == 0
    assert invoke(path, "-o", tmp_path / "other.html").exit_code == 0


def test_the_command_takes_what_a_release_does_not_say(release, data, tmp_path):
    path, later, book = tmp_path / "r.json", tmp_path / "e.json", tmp_path / "l.json"
    release.write(path)
    plan_evaluation(release, Budget(1.0, 1e-6)).run(data).write(later)
    schema, budget = release.certificate.schema, Budget(9.0, 1e-4)
    Ledger.create(str(book)).add(Account("mine", schema, budget, filter_for("basic", budget)))
    words = [path, "--purpose", "rents", "--owner", "me", "--date", "today", "--evaluation", later]
    assert invoke(*words, "--ledger", book).exit_code == 2  # no account paid for it
    assert invoke(*words, "--account", "mine").exit_code == 2
    assert invoke(*words, "--ledger", book, "--account", "mine").exit_code == 0
    text = Read(path.with_suffix(".html").read_text(encoding="utf-8")).text
    assert "Purpose rents Answers for it me Date today" in text
    assert "It cost epsilon 1" in text


def test_a_page_comes_with_the_release_that_is_composed(tmp_path, data):
    lines = ["area,rent", *(f"{x},{y}" for x, y in zip(data.X[:300, 0], data.y, strict=False))]
    (tmp_path / "rents.csv").write_text("\n".join(lines))
    schema = Schema.numeric(["area"], target="rent", bounds={"area": (0, 300), "rent": (0, 5000)})
    (tmp_path / "rents.schema.toml").write_text(to_toml(schema.to_document()))
    made, about = tmp_path / "release.json", tmp_path / "about.html"
    words = ["compose", tmp_path / "rents.csv", "--regressor", "mean", "--output", made, "--report", about]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert about.read_text(encoding="utf-8") == page(Release.read(made), "release.json")
    made.unlink()
    again = CliRunner().invoke(app, list(map(str, words)))
    assert again.exit_code == 2  # nothing is spent for a page that cannot be written
    assert not made.exists()
    assert CliRunner().invoke(app, list(map(str, [*words, "--output", about]))).exit_code == 2
    dry = CliRunner().invoke(app, list(map(str, [*words, "--dry-run", "--report", tmp_path / "dry.html"])))
    assert dry.exit_code == 0
    assert not (tmp_path / "dry.html").exists()


def test_without_who_writes_pages_nothing_is_spent(tmp_path, without):
    without("dpkit-command-report")
    (tmp_path / "rents.csv").write_text("area,rent\n1,2\n2,3\n")
    words = ["compose", tmp_path / "rents.csv", "--target", "rent", "--regressor", "mean"]
    words += ["--output", tmp_path / "release.json", "--report", tmp_path / "about.html"]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 2
    assert "CLONE[report]" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rents.csv"]


# Folders of results


def test_the_page_about_results_says_what_it_draws(results):
    text = page_of_results(results, "small")
    read = Read(text)
    assert "Research, not a release." in read.text
    assert "Without privacy, ols: 0.5." in read.text
    assert "Nothing without privacy was run on this table" in read.text
    assert "3 refused of 4" in read.text
    assert "1 refused and 1 failed of 5" in read.text
    says = [value for tag, name, value in read.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(says) == sum(len(table["lines"]) for table in results["tables"])
    assert "<i>" not in text
    assert read.headings == [1, 2, 2, 2]
    assert not re.search(r"https?:|<script|<link|<img|url\(|@import|\son\w+=", text)


def shapes(text, kind):
    return [
        dict(re.findall(r'(\w+)="([^"]*)"', each)) for each in re.findall(f'<line class="{kind}"[^>]*>', text)
    ]


def test_a_refusal_is_drawn_as_a_refusal_and_the_reference_across_each_line(results):
    alone = {**results, "tables": results["tables"][:1]}
    text = page_of_results(alone, "small")
    assert [each["x1"] for each in shapes(text, "reference")] == ["50.0%"] * 3
    assert [each["x2"] for each in shapes(text, "refused")] == ["75.0%", "20.0%"]
    (first, last) = shapes(text, "quartiles")  # none where the median trial was refused
    assert (first["x1"], first["x2"]) == ("10.0%", "40.0%")
    assert last["x1"] == "0.0%"  # a quarter of its trials has no value
    assert re.findall(r'<circle cx="([\d.]+)%"', text) == ["25.0", "30.0"]
    assert not shapes(page_of_results({**results, "tables": results["tables"][1:]}, "x"), "reference")


def test_values_beyond_a_picture_are_at_its_edge():
    r2 = PictureScale.of([-50.0, 0.5], larger=True)
    assert (r2.low, r2.high) == (-0.25, 1.0)
    assert (r2.place(-50.0), r2.place(1.0), r2.place(-float("inf"))) == (0.0, 100.0, 0.0)
    rmse = PictureScale.of([2.0, 4.0, float("inf")], larger=False)
    assert (rmse.low, rmse.high, rmse.place(3.0), rmse.place(float("inf"))) == (0.0, 4.0, 75.0, 100.0)
    assert PictureScale.of([], larger=True).place(0.5) == 50.0


def test_a_folder_that_nobody_can_read_says_what_to_give(tmp_path):
    done = invoke(tmp_path)
    assert done.exit_code == 2
    assert "a folder that `dpkit bench` wrote" in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())
