"""Pictures of results, each as PNG and SVG.

Colors are those of Okabe and Ito, which people with any common form of color blindness can tell apart, and
every method also has its own marker and hatching, so that pictures survive a printer without colors. Text is
large for the size of a picture, because papers shrink them.
"""

from __future__ import annotations

import functools
import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

from dpkit_command_bench.errors import InvalidResults
from dpkit_command_bench.metrics import METRICS
from dpkit_command_bench.published import Published
from dpkit_command_bench.summary import Cell, Standing, Summary, summarize
from dpkit_command_bench.trial import Row

# Okabe and Ito 2002, Color Universal Design, with gray for their yellow, which is faint on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#808080")
MARKERS = ("o", "s", "^", "D", "v", "P", ">", "*")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "+++", "ooo")
SUFFIXES = ("png", "svg")

# R^2 below this says no more than that the model is worthless; it is drawn on the lower edge.
R2_FLOOR = -0.5
_R2_TICKS = ([R2_FLOOR, 0, 0.5, 1], [f"≤ {R2_FLOOR:g}", "0", "0.5", "1"])
_LABEL = {"r2": "$R^2$ on held-out records", "rmse": "root mean squared error", "recall": "recall"}
_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "dpkit",  # the same picture is the same file
    "hatch.linewidth": 0.6,
}
_PER_ROW = 4
_PER_COLUMN = 10  # tables
_NAME_WIDTH = 24  # letters of a method's name on one line beside bars


def draw(
    rows: Sequence[Row],
    folder: Path,
    *,
    metric: str | None = None,
    against: str | None = None,
    published: Sequence[Published] = (),
) -> list[Path]:
    """Return the files of every picture that the rows have something to say for.

    Parameters
    ----------
    rows
        Of one or more runs.
    folder
        Where pictures go; made if it is not there.
    metric
        What to draw; the first that the rows have, by default.
    against
        The composition that the others are compared with in heat maps; the first, by default.
    published
        Medians to mark next to those of the rows.

    Raises
    ------
    InvalidResults
        If the rows do not have the metric or the composition.
    """
    if metric is not None and all(row.get(metric) is None for row in rows):
        known = [name for name in METRICS if any(row[name] is not None for row in rows)]
        raise InvalidResults(f"the results have no metric {metric!r}; they have {', '.join(known) or 'none'}")
    matplotlib.use("agg")
    summary = summarize(rows, metric, published)
    pictures: dict[str, Callable[[Summary, _Look], Any]] = {
        "ranks": _rank_bars,
        "positives": _positive_bars,
        "time": _time_against_records,
    }
    # One picture for each k: a page holds no more tables than a suite has.
    ks = _ks(summary.cells)
    for k in ks:
        ending = f"-k{k}" if len(ks) > 1 else ""
        pictures[f"epsilon{ending}"] = functools.partial(_metric_against_epsilon, k=k)
        pictures[f"tables{ending}"] = functools.partial(_metric_by_table, k=k)
    names = list(dict.fromkeys(cell.setting.composition for cell in summary.cells))
    look = _Look(names)
    if against is not None and against not in names:
        raise InvalidResults(f"the results have no composition {against!r}; they have {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_STYLE):
        written = [
            path for name, picture in pictures.items() for path in _save(picture(summary, look), folder, name)
        ]
        base = against or names[0]
        for name in names:
            if name != base:
                figure = _differences(summary, name, base)
                written += _save(figure, folder, f"difference-{_word(name)}-{_word(base)}")
    return written


class _Look:
    """The color, marker and hatching of each method, the same in every picture."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}

    def color(self, name: str) -> str:
        return COLORS[self._places[name] % len(COLORS)]

    def marker(self, name: str) -> str:
        # Shifted with every round of colors, so that no two of 64 methods look the same.
        place = self._places[name]
        return MARKERS[(place + place // len(COLORS)) % len(MARKERS)]

    def hatch(self, name: str) -> str:
        place = self._places[name]
        return HATCHES[(place + place // len(COLORS)) % len(HATCHES)]


def _save(figure: Any, folder: Path, name: str) -> list[Path]:
    if figure is None:
        return []
    paths = [folder / f"{name}.{suffix}" for suffix in SUFFIXES]
    for path in paths:
        # Without a date the same results give the same file.
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return paths


def _word(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())


def _metric_against_epsilon(summary: Summary, look: _Look, *, k: int | None) -> Any:
    """One panel a table: the median and, as a band, the quartiles, against epsilon."""
    if len({cell.setting.epsilon for cell in summary.cells}) < 2:
        return None
    shown = _at(summary.cells, k)
    panels = _grouped(shown, lambda cell: cell.setting.table)
    figure, axes = _panels(len(panels))
    for axis, (table, cells) in zip(axes, panels.items(), strict=True):
        for name, line in _grouped(cells, lambda cell: cell.setting.composition).items():
            points = sorted((cell.setting.epsilon, cell.quartiles) for cell in line if cell.quartiles)
            xs = [epsilon for epsilon, _ in points]
            low, median, high = ([_visible(summary, getattr(q, side)) for _, q in points] for side in _SIDES)
            style = "-" if line[0].private else "--"
            axis.plot(xs, median, style, color=look.color(name), marker=look.marker(name), ms=5, label=name)
            axis.fill_between(xs, low, high, color=look.color(name), alpha=0.2, linewidth=0)
        axis.set_xscale("log")
        _plain_ticks(axis, sorted({cell.setting.epsilon for cell in cells}))
        axis.set_title(table)
        _mark_floor(summary, axis, least=min(map(functools.partial(_least, summary), shown)))
    for axis in axes[-_PER_ROW:]:
        axis.set_xlabel("epsilon")
    figure.suptitle(_titled("", k, shown), fontsize="medium")
    figure.supylabel(_LABEL[summary.metric], fontsize="medium")
    _legend(figure, axes)
    return figure


_SIDES = ("low", "median", "high")


def _metric_by_table(summary: Summary, look: _Look, *, k: int | None) -> Any:
    """One band a table: median and quartiles of each method, at the largest epsilon that most have."""
    cells = [cell for cell in _at(summary.cells, k) if cell.quartiles is not None]
    if not cells:
        return None
    budgets = _grouped(cells, lambda cell: cell.setting.epsilon)
    epsilon = max(budgets, key=lambda each: (len({cell.setting.composition for cell in budgets[each]}), each))
    chosen = budgets[epsilon]
    tables = list(dict.fromkeys(cell.setting.table for cell in chosen))
    names = list(dict.fromkeys(cell.setting.composition for cell in chosen))
    columns = math.ceil(len(tables) / _PER_COLUMN)
    lines = math.ceil(len(tables) / columns)
    figure, axes = plt.subplots(
        1,
        columns,
        figsize=(
            5.6 * columns,
            0.9 + 0.25 * math.ceil(len(names) / 2) + lines * max(0.34, 0.13 * len(names)),
        ),
        squeeze=False,
        layout="constrained",
    )
    for column, axis in enumerate(axes[0]):
        shown = tables[column * lines : (column + 1) * lines]
        for place in range(0, len(shown), 2):
            axis.axhspan(place - 0.5, place + 0.5, color="0.95", linewidth=0)
        for cell in chosen:
            if cell.setting.table in shown:
                offset = 0.8 * ((names.index(cell.setting.composition) + 0.5) / len(names) - 0.5)
                _interval(axis, summary, cell, look, shown.index(cell.setting.table) + offset)
        axis.set_yticks(range(len(shown)), shown)
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(lines - 0.5, -0.5)
        axis.set_xlabel(_LABEL[summary.metric])
        if summary.metric == "r2":
            axis.axvline(0, color="0.4", linewidth=0.8, linestyle=":")
            axis.set_xticks(*_R2_TICKS)
            axis.set_xlim(
                R2_FLOOR - 0.08 if any(_least(summary, cell) < 0 for cell in chosen) else -0.02, 1.02
            )
        elif not METRICS[summary.metric].larger_is_better:
            axis.set_xscale("log")
    figure.suptitle(_titled(f"epsilon {epsilon:.3g}", k, chosen), fontsize="medium")
    first = axes[0][0]
    if any(cell.quartiles is not None and math.isinf(cell.quartiles.median) for cell in chosen):
        first.plot([], [], "x", color="black", markeredgewidth=1.5, label="median trial refused")
    if any(cell.published for cell in chosen):
        first.plot([], [], ":|", color="black", markersize=8, markeredgewidth=1.6, label="published")
    _legend(figure, axes[0])
    return figure


def _interval(axis: Any, summary: Summary, cell: Cell, look: _Look, y: float) -> None:
    name = cell.setting.composition
    low, median, high = (_visible(summary, getattr(cell.quartiles, side)) for side in _SIDES)
    color = look.color(name)
    face = color if cell.private else "white"
    axis.plot([low, high], [y, y], color=color, linewidth=2, alpha=0.55, solid_capstyle="butt")
    if cell.published is not None:
        theirs = _visible(summary, cell.published.median)
        axis.plot([theirs, median], [y, y], ":", color=color, linewidth=1)
        axis.plot(theirs, y, "|", color="black", markersize=8, markeredgewidth=1.6, clip_on=False)
    refused = cell.quartiles is not None and math.isinf(cell.quartiles.median)
    style: dict[str, Any] = {
        "color": color,
        "markerfacecolor": face,
        "markersize": 6,
        "markeredgewidth": 1.5,
    }
    axis.plot(median, y, "x" if refused else look.marker(name), clip_on=False, **style)
    axis.plot([], [], look.marker(name), linestyle="none", label=name, **style)


def _rank_bars(summary: Summary, look: _Look) -> Any:
    """How often each method is first (full) and second (pale): Figure 1 of DPKendall."""

    def bar(axis: Any, place: int, standing: Standing) -> str:
        color, hatch = look.color(standing.composition), look.hatch(standing.composition)
        first, second = (standing.ranks[rank] / standing.tables for rank in (1, 2))
        axis.barh(place, first, color=color, hatch=hatch, edgecolor="white")
        axis.barh(place, second, left=first, color=color, alpha=0.4, edgecolor=color)
        if theirs := standing.published:
            _mark(axis, place, theirs.ranks[1] / theirs.tables, "published")
            both = (theirs.ranks[1] + theirs.ranks[2]) / theirs.tables
            _mark(axis, place, both, "published, rank 1 or 2", style=":")
        return f"{standing.ranks[1]}+{standing.ranks[2]}"

    return _bars(summary, "fraction of tables with rank 1 (full), 2 (pale)", bar, least=2)


def _positive_bars(summary: Summary, look: _Look) -> Any:
    """On how many tables the median is positive: Figure 2 of DPKendall."""

    def bar(axis: Any, place: int, standing: Standing) -> str:
        color, hatch = look.color(standing.composition), look.hatch(standing.composition)
        axis.barh(place, standing.positive / standing.tables, color=color, hatch=hatch, edgecolor="white")
        if theirs := standing.published:
            _mark(axis, place, theirs.positive / theirs.tables, "published")
        return f"{standing.positive}/{standing.tables}"

    return _bars(summary, "fraction of tables with median $R^2 > 0$", bar) if summary.metric == "r2" else None


def _mark(axis: Any, place: int, share: float, label: str, style: str = "-") -> None:
    """Draw a published share across a bar."""
    axis.plot([share] * 2, [place - 0.45, place + 0.45], style, color="black", linewidth=2, label=label)


def _bars(summary: Summary, label: str, bar: Callable[[Any, int, Standing], str], least: int = 1) -> Any:
    """One panel for each epsilon and k, one bar for each method; ``bar`` draws it and says its counts."""
    groups = _grouped(summary.standings, lambda standing: (standing.epsilon, standing.delta, standing.k))
    names = list(dict.fromkeys(standing.composition for standing in summary.standings))
    if max(map(len, groups.values()), default=0) < least:
        return None
    figure, axes = _panels(len(groups), height=0.5 + 0.36 * max(2, len(names)), share="all")
    for axis, ((epsilon, _, k), standings) in zip(axes, groups.items(), strict=True):
        for standing in standings:
            place = names.index(standing.composition)
            counts = bar(axis, place, standing)
            # Where no bar and no mark can run through the text.
            axis.text(1.05, place, counts, va="center", fontsize="small")
        axis.set_yticks(range(len(names)), ["\n".join(textwrap.wrap(name, _NAME_WIDTH)) for name in names])
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.set_xlim(0, 1.4)
        axis.spines["bottom"].set_bounds(0, 1)
        axis.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axis.set_title(_titled(f"epsilon {epsilon:.3g}", k))
    figure.suptitle(label, fontsize="medium")
    if any(standing.published for standing in summary.standings):
        _legend(figure, axes)
    return figure


def _differences(summary: Summary, first: str, second: str) -> Any:
    """The median of one method minus that of another, for each table and setting."""
    tables = list(dict.fromkeys(cell.setting.table for cell in summary.cells))
    settings = sorted(
        {
            (cell.setting.epsilon, cell.setting.k)
            for cell in summary.cells
            if cell.setting.composition in (first, second)
        },
        key=lambda setting: (setting[0], setting[1] or 0),
    )
    a, b = _medians(summary, first), _medians(summary, second)
    grid = [[_difference(summary, a(table, *s), b(table, *s)) for s in settings] for table in tables]
    if all(value is None for line in grid for value in line):
        return None
    figure, axis = plt.subplots(
        figsize=(3.4 + 0.95 * len(settings), 1.6 + 0.36 * len(tables)), layout="constrained"
    )
    limit = 1.0
    shades = [[math.nan if value is None else value for value in line] for line in grid]
    # Brown to teal: tells plus from minus for every eye.
    image = axis.imshow(shades, cmap="BrBG", vmin=-limit, vmax=limit, aspect="auto")
    for row, column in itertools.product(range(len(tables)), range(len(settings))):
        value = grid[row][column]
        text = "–" if value is None else _signed(summary, value)
        dark = value is not None and abs(value) > 0.6 * limit
        axis.text(column, row, text, ha="center", va="center", color="white" if dark else "black", fontsize=9)
    axis.set_yticks(range(len(tables)), tables)
    labels = [f"$\\epsilon$={epsilon:.3g}" + (f"\nk={k}" if k else "") for epsilon, k in settings]
    axis.set_xticks(range(len(settings)), labels)
    axis.spines[:].set_visible(False)
    axis.set_title(f"{first}\ncompared with {second}")
    label = {
        "r2": f"difference of $R^2$,\neach at least {R2_FLOOR:g}",
        "rmse": "relative difference of root\nmean squared error",
    }.get(summary.metric, f"difference of\n{_LABEL[summary.metric]}")
    figure.colorbar(image, label=label, shrink=0.9, ticks=[-1, 0, 1])
    return figure


def _medians(summary: Summary, name: str) -> Callable[[str, float, int | None], float | None]:
    """Return the median of a method by table, epsilon and k; one without a selection has it for every k."""
    medians = {
        (cell.setting.table, cell.setting.epsilon, cell.setting.k): cell.quartiles.median
        for cell in summary.cells
        if cell.setting.composition == name and cell.quartiles is not None
    }
    return lambda table, epsilon, k: medians.get((table, epsilon, k), medians.get((table, epsilon, None)))


def _difference(summary: Summary, a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    if summary.metric == "r2":
        a, b = max(a, R2_FLOOR), max(b, R2_FLOOR)
    if not (math.isfinite(a) and math.isfinite(b)):
        return None
    if summary.metric == "rmse":  # in units of the target, so no two tables compare
        return a / b - 1 if b > 0 else None
    return a - b


def _signed(summary: Summary, value: float) -> str:
    if summary.metric == "rmse":
        return "0%" if abs(value) < 0.005 else f"{value:+.0%}" if value < 10 else f"{1 + value:.0f} times"
    return "0" if abs(value) < 0.005 else f"{value:+.2f}"


def _time_against_records(summary: Summary, look: _Look) -> Any:
    """Seconds of the median trial against the number of training records, both logarithmic."""
    cells = [cell for cell in summary.cells if cell.seconds > 0]
    if len({cell.training_records for cell in cells}) < 2:
        return None
    figure, axis = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
    # A line says "the same, with more records", which is true of tables that are as wide.
    style = "-" if len({cell.features for cell in cells}) == 1 else "none"
    for name, line in _grouped(cells, lambda cell: cell.setting.composition).items():
        by_size = _grouped(line, lambda cell: cell.training_records)
        points = sorted((n, max(cell.seconds for cell in group)) for n, group in by_size.items())
        xs, ys = zip(*points, strict=True)
        axis.plot(xs, ys, linestyle=style, color=look.color(name), marker=look.marker(name), ms=5, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    _plain_ticks(axis, _apart(sorted({cell.training_records for cell in cells})))
    axis.set_xlabel("training records")
    axis.set_ylabel("seconds a trial (median,\nslowest setting)")
    axis.grid(alpha=0.25)
    _legend(figure, [axis])
    return figure


def _panels(
    count: int, width: float = 3.0, height: float = 2.5, share: Literal["none", "all"] = "none"
) -> tuple[Any, list[Any]]:
    """Return a figure of at least ``count`` panels, and the panels in use."""
    columns = min(count, _PER_ROW)
    lines = math.ceil(count / columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(width * columns, height * lines + 0.6),
        sharey=share,
        squeeze=False,
        layout="constrained",
    )
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, list(axes.flat[:count])


def _legend(figure: Any, axes: Iterable[Any]) -> None:
    entries: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    # One column: names are long, and a picture is often shrunk to a column of text.
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=min(2, len(entries)))


def _grouped(items: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _ks(cells: Iterable[Cell]) -> list[int | None]:
    """Return every k in order; without a selection there is one panel, for all features."""
    return [*sorted({k for cell in cells if (k := cell.setting.k) is not None})] or [None]


def _titled(text: str, k: int | None, cells: Iterable[Cell] = ()) -> str:
    """Return a title that says the k, and whether some of the cells have no selection."""
    others = " or all" if any(cell.setting.k is None for cell in cells) else ""
    return ", ".join(([text] if text else []) + ([] if k is None else [f"k = {k}{others}"]))


def _at(cells: Iterable[Cell], k: int | None) -> list[Cell]:
    """Return the cells of one k; without a selection, a method is in every picture."""
    return [cell for cell in cells if cell.setting.k in (k, None)]


def _visible(summary: Summary, value: float) -> float:
    """Return the value, moved to the edge of the picture where it says no more than "worthless"."""
    if summary.metric == "r2":
        return max(value, R2_FLOOR)
    return value if math.isfinite(value) else math.nan


def _least(summary: Summary, cell: Cell) -> float:
    """Return the least that is drawn of a cell, or was published; 1 where nothing is."""
    drawn = [] if cell.quartiles is None else [cell.quartiles.low]
    drawn += [] if cell.published is None else [cell.published.median]
    return min((_visible(summary, value) for value in drawn), default=1.0)


def _mark_floor(summary: Summary, axis: Any, least: float) -> None:
    if summary.metric == "r2":
        axis.set_yticks(*_R2_TICKS)
        axis.set_ylim(R2_FLOOR - 0.05 if least < 0 else -0.02, 1.02)
        axis.axhline(0, color="0.4", linewidth=0.8, linestyle=":")
    elif METRICS[summary.metric].larger_is_better:
        axis.set_ylim(-0.02, 1.02)


def _plain_ticks(axis: Any, values: Sequence[float]) -> None:
    axis.set_xticks(values, [f"{value:,}" if isinstance(value, int) else f"{value:.3g}" for value in values])
    axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def _apart(values: Sequence[int]) -> list[int]:
    """Return those values that are far enough from each other to be written under a logarithmic axis."""
    kept = [values[0]]
    room = (values[-1] / values[0]) ** (1 / 5)
    for value in values[1:]:
        if value >= room * kept[-1]:
            kept.append(value)
    return kept
