"""What the pictures show. Whether they can be read was judged by eye."""

import hashlib
import math

import pytest
from dpkit_command_bench import page, plots
from dpkit_command_bench.published import Published
from dpkit_command_bench.summary import summarize

plt = pytest.importorskip("matplotlib.pyplot")


def row(table, composition, epsilon, r2, *, k=5, records=90, private=True):
    refused = math.isinf(r2)
    return {
        "table": table, "composition": composition, "epsilon": epsilon, "delta": 1e-6, "k": k, "r2": r2,
        "rmse": math.inf if refused else 2.0 - r2, "recall": None,
        "outcome": "refused" if refused else "released", "mechanism_private": private, "wall_seconds": 0.5,
        "training_records": records, "features": 3, "message": None,
    }  # fmt: skip


# Two tables, two methods, two epsilons: "y" wins on "a", "x" on "b", where "y" refuses at the small epsilon.
ROWS = [
    *(row("a", "x", epsilon, r2) for epsilon in (0.5, 2.0) for r2 in (0.1, 0.2, 0.3)),
    *(row("a", "y", epsilon, 0.6) for epsilon in (0.5, 2.0)),
    *(row("b", "x", epsilon, 0.4, records=1800) for epsilon in (0.5, 2.0)),
    row("b", "y", 0.5, -math.inf, records=1800),
    row("b", "y", 2.0, -7.0, records=1800),
    row("a", "best", 2.0, 0.9, k=None, private=False),
]
PUBLISHED = [Published("S", "r2", {"x": {"a": 0.25, "b": -1.0}, "y": {"a": 0.5, "b": -2.0}})]


@pytest.fixture
def picture():
    """Draw one picture of the rows, and close it."""

    def draw(function, rows=ROWS, metric="r2", published=(), **options):
        summary = summarize(rows, metric, published)
        names = list(dict.fromkeys(cell.setting.composition for cell in summary.cells))
        return function(summary, plots._Look(names), **options)

    yield draw
    plt.close("all")


def line(axis, label):
    (found,) = (each for each in axis.get_lines() if each.get_label() == label and len(each.get_xdata()))
    return list(zip(found.get_xdata(), found.get_ydata(), strict=True))


def texts(axis):
    return [text.get_text() for text in axis.texts]


def test_the_metric_is_drawn_against_epsilon_with_its_quartiles(picture):
    a, b = picture(plots._metric_against_epsilon, k=5).axes
    assert (a.get_title(), b.get_title()) == ("a", "b")
    assert line(a, "x") == [(0.5, 0.2), (2.0, 0.2)]
    band = a.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.15, 0.25))
    # Worthless and refused are both on the lower edge, which says so.
    assert line(b, "y") == [(0.5, plots.R2_FLOOR), (2.0, plots.R2_FLOOR)]
    assert b.get_yticklabels()[0].get_text() == "≤ -0.5"


def test_one_epsilon_needs_no_axis_of_epsilon(picture):
    assert picture(plots._metric_against_epsilon, [row("a", "x", 1.0, 0.5)], k=5) is None


def test_a_picture_by_table_marks_refusals_and_what_was_published(picture):
    rows = [each for each in ROWS if each["epsilon"] == 0.5]
    (axis,) = picture(plots._metric_by_table, rows, published=PUBLISHED, k=5).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a", "b"]
    crosses = [each for each in axis.get_lines() if each.get_marker() == "x" and len(each.get_xdata())]
    assert [each.get_xdata()[0] for each in crosses] == [plots.R2_FLOOR]
    ticks = [each for each in axis.get_lines() if each.get_marker() == "|" and len(each.get_xdata()) == 1]
    assert sorted(each.get_xdata()[0] for each in ticks) == [plots.R2_FLOOR, plots.R2_FLOOR, 0.25, 0.5]
    assert {each.get_label() for each in axis.get_lines()} >= {"x", "y", "published", "median trial refused"}


@pytest.mark.slow
def test_many_tables_stand_in_two_columns(picture):
    rows = [row(f"t{place}", "x", 1.0, 0.5) for place in range(19)]
    first, second = picture(plots._metric_by_table, rows, k=5).axes
    names = [label.get_text() for axis in (first, second) for label in axis.get_yticklabels()]
    assert names == [f"t{place}" for place in range(19)]


def test_ranks_are_counted_in_bars(picture):
    small, large = picture(plots._rank_bars, published=PUBLISHED).axes
    assert (small.get_title(), large.get_title()) == ("epsilon 0.5, k = 5", "epsilon 2, k = 5")
    assert texts(small) == ["1+1", "1+1"]
    assert [label.get_text() for label in small.get_yticklabels()] == ["x", "y"]  # "best" is not private
    first, second = small.patches[:2]
    assert (first.get_width(), second.get_x(), second.get_width()) == (0.5, 0.5, 0.5)
    marks = [each for each in small.get_lines() if each.get_label() == "published"]
    assert [each.get_xdata()[0] for each in marks] == [0.5, 0.5]  # they too won one table each


def test_one_method_has_no_ranks(picture):
    assert picture(plots._rank_bars, [row("a", "x", 1.0, 0.5), row("b", "x", 1.0, 0.5)]) is None


@pytest.mark.slow
def test_one_table_has_no_bars_and_no_room_below_0_that_nothing_needs(picture):
    rows = [*(row("a", "x", epsilon, 0.5, k=None) for epsilon in (0.5, 2.0)), row("a", "y", 0.5, 0.4)]
    for bars in (plots._rank_bars, plots._positive_bars):
        assert picture(bars, rows) is None
    figures = [
        picture(function, rows, k=5) for function in (plots._metric_against_epsilon, plots._metric_by_table)
    ]
    limits = [figures[0].axes[0].get_ylim(), figures[1].axes[0].get_xlim()]
    assert limits == [(-0.02, 1.02)] * 2
    # The largest epsilon at which both were run, one of them on all columns.
    assert [figure.get_suptitle() for figure in figures] == ["k = 5 or all", "epsilon 0.5, k = 5 or all"]


def test_positives_are_counted_in_bars(picture):
    small, _ = picture(plots._positive_bars, published=PUBLISHED).axes
    assert texts(small) == ["2/2", "1/2"]
    marks = [each for each in small.get_lines() if each.get_label() == "published"]
    assert [each.get_xdata()[0] for each in marks] == [0.5, 0.5]
    assert picture(plots._positive_bars, metric="rmse") is None


def test_a_heat_map_shows_who_is_better_where():
    figure = plots._differences(summarize(ROWS, "r2"), "y", "x")
    axis, _ = figure.axes
    assert axis.get_title() == "y\ncompared with x"
    # Table a: 0.6 - 0.2 at both epsilons; table b: from the lower edge, -0.5 - 0.4.
    assert texts(axis) == ["+0.40", "+0.40", "-0.90", "-0.90"]
    plt.close(figure)


def test_errors_in_units_of_the_target_are_compared_by_their_ratio():
    figure = plots._differences(summarize(ROWS, "rmse"), "y", "x")
    # By hand: 1.4 / 1.8 - 1 on table a; on b, a refusal has no ratio, and 9 / 1.6 - 1.
    assert texts(figure.axes[0]) == ["-22%", "-22%", "–", "+462%"]
    plt.close(figure)


def test_time_is_drawn_against_records(picture):
    (axis,) = picture(plots._time_against_records).axes
    assert line(axis, "x") == [(90, 0.5), (1800, 0.5)]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["90", "1,800"]


def test_methods_can_be_told_apart_without_colors():
    look = plots._Look([str(place) for place in range(64)])
    seen = {(look.color(name), look.marker(name)) for name in look._places}
    assert len(seen) == 64
    assert len({look.marker(str(place)) for place in range(8)}) == 8
    assert len({look.hatch(str(place)) for place in range(8)}) == 8
    assert "x" not in plots.MARKERS  # a refusal


@pytest.mark.exhaustive
def test_the_same_results_are_the_same_files(tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    files = [plots.draw(ROWS, folder, published=PUBLISHED) for folder in folders]
    hashes = [[hashlib.sha256(path.read_bytes()).hexdigest() for path in drawn] for drawn in files]
    assert hashes[0] == hashes[1]
    names = {"ranks", "positives", "time", "epsilon", "tables", "difference-y-x", "difference-best-x"}
    assert {path.name for path in files[0]} == {f"{name}.{end}" for name in names for end in ("png", "svg")}


def test_a_page_is_told_what_a_folder_holds(monkeypatch, tmp_path):
    told = [{**each, "suite": "small", "key": str(n)} for n, each in enumerate(ROWS)]
    monkeypatch.setattr(page.Results, "rows", lambda self: told)
    (tmp_path / "suite.json").write_text('{"metrics": ["r2"]}')
    document = page.report(tmp_path)
    assert document["title"] == "Results of small"
    assert (document["metric"], document["larger"]) == ("r2", True)
    a, b = document["tables"]
    assert (a["name"], a["reference"]) == ("a, k = 5", {"name": "best", "value": 0.9})
    assert b["reference"] is None
    lines = {(each["name"], each["epsilon"]): each for each in (*a["lines"], *b["lines"])}
    assert ("best", 2.0) not in lines
    assert next(each for each in a["lines"] if each["name"] == "x")["quartiles"] == pytest.approx(
        [0.15, 0.2, 0.25]
    )
    assert lines["y", 0.5]["refused"] == 1
    assert lines["y", 0.5]["quartiles"] == [-math.inf] * 3
    assert document["ranking"]["header"][0] == "method"
    assert len(document["ranking"]["rows"]) == 4
    assert all(isinstance(cell, str) for each in document["ranking"]["rows"] for cell in each)


def test_another_folder_is_none_of_its_own(tmp_path):
    assert page.report(tmp_path) is None
