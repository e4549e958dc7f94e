"""A request for a release, from the command line, a plan file or a program.

::

    wanted = Request(Facts(Path("visits.schema.toml")), Budget(1.0, 1e-6), "visits.parquet")
    with propose(wanted) as agreed:        tables opened, public facts found, parts chosen, plan made
        print(agreed.plan)                 what will be spent, and on what; nothing is spent yet
        release = agreed.plan.run(agreed.records())

A request names public facts, parts and a budget, and where the records are. ``propose`` makes a plan of it,
and decides what it leaves open by public facts alone: which recipe, how many features, what share the
selection has. ``agreed_in`` takes a plan that was saved instead. Either way, whatever can be refused is
refused before anything is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import attrs

from dpkit_cli.facts import Facts
from dpkit_cli.planfile import read_plan
from dpkit_core.data.dataset import AnyDataset, Dataset, dataset_of
from dpkit_core.data.matching import require_columns, unused_columns
from dpkit_core.data.schema import Schema
from dpkit_core.data.source import ReadOptions, Source
from dpkit_core.errors import InvalidOption
from dpkit_core.pipeline.choose import AUTO, Recommendation, k_in_words, recommend
from dpkit_core.pipeline.compose import Pipeline, compose
from dpkit_core.pipeline.observers import warn
from dpkit_core.pipeline.parts import make_engine
from dpkit_core.pipeline.plan import Plan, Records
from dpkit_core.pipeline.planner import DEFAULT_SELECT_SHARE
from dpkit_core.pipeline.recipes import Recipe, find_recipe
from dpkit_core.plugins.sources import open_source
from dpkit_core.privacy.budget import Budget
from dpkit_core.validators import frozen_mapping


def _several(data: Any) -> tuple[Any, ...]:
    """Return tables as a tuple; a single table becomes a tuple of one."""
    return tuple(data) if isinstance(data, list | tuple) else (data,)


@attrs.frozen(eq=False)
class Request:
    """Public facts, a budget, and where the records are; parts, if any are named.

    Attributes
    ----------
    facts
        What is public about the table.
    budget
        What all parts may cost together.
    data
        A table, or a list of the batches of a stream in the order of their arrival: each is a name of a file,
        a table in memory, or what else ``dpkit_core.plugins.sources.open_source`` takes. None for a plan
        alone.
    reading
        How to read the tables, if that is not obvious.
    batches
        Whether several tables are batches of one stream.
    recipe
        A recipe by name, or by the path of its file.
    parts
        Role -> name of an installed part. They win over those of the recipe. Where neither a recipe nor a
        part other than the accountant is named, the recipe that suits the public facts is taken.
    options
        Role -> option -> value, for the parts and the engine.
    k
        How many features to select; ``"auto"`` lets the public facts say.
    select_share
        Fraction of the budget for the selection; by default the recipe's, else
        ``dpkit_core.pipeline.planner.DEFAULT_SELECT_SHARE``.
    evaluate
        Share of the records that are held out and score the model; None for no score.
    in_sample
        Fraction of the budget for a score on the records of the fit; None for no score.
    engine
        What will have the records, by the name of an installed engine; None for this process.

    Raises
    ------
    InvalidOption
        If there are several tables that are not said to be batches.
    """

    facts: Facts
    budget: Budget
    data: tuple[Any, ...] = attrs.field(default=(), converter=_several)
    reading: ReadOptions = attrs.field(default=ReadOptions(), kw_only=True)
    batches: bool = attrs.field(default=False, kw_only=True)
    recipe: str | None = attrs.field(default=None, kw_only=True)
    parts: Mapping[str, str] = attrs.field(factory=dict, converter=frozen_mapping, kw_only=True)
    options: Mapping[str, Mapping[str, Any]] = attrs.field(
        factory=dict, converter=frozen_mapping, kw_only=True
    )
    k: int | str | None = attrs.field(default=None, kw_only=True)
    select_share: float | None = attrs.field(default=None, kw_only=True)
    evaluate: float | None = attrs.field(default=None, kw_only=True)
    in_sample: float | None = attrs.field(default=None, kw_only=True)
    engine: str | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if "engine" in self.options and self.engine is None:
            raise InvalidOption(
                f"options {sorted(self.options['engine'])} are given for the engine, and no engine; name it, "
                "as in --engine dask"
            )
        if len(self.data) > 1 and not self.batches:
            raise InvalidOption(
                f"{len(self.data)} tables are given; give one, or add --batches if they are batches of one "
                "stream"
            )


@attrs.frozen(eq=False)
class Agreed:
    """A plan and its tables; nothing is spent yet.

    At the end of a ``with`` block, the tables that were opened for it are closed.

    Attributes
    ----------
    plan
        What each part will spend.
    sources
        The tables, which have the columns that the plan's schema names.
    reading
        How they are read.
    recommended
        The recipe chosen by public facts, if nobody named one.
    because
        Why it was, and why there are so many features, where rules decided; a sentence each.
    read
        What makes the data of a source, the public facts, and the forms that the parts accept.
    """

    plan: Plan
    sources: tuple[Source, ...]
    reading: ReadOptions
    recommended: Recommendation | None = None
    because: tuple[str, ...] = ()
    read: Callable[[Source, Schema, Sequence[str]], AnyDataset] = attrs.field(
        default=dataset_of, kw_only=True
    )
    _opened: ExitStack = attrs.field(factory=ExitStack, repr=False, kw_only=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def records(self) -> Records:
        """Return the data to run the plan on: the table, or the batches of a stream, which may be empty.

        What an engine has is closed with the tables.

        Raises
        ------
        InvalidData
            If the records are not what the schema says; nothing is spent.
        InvalidOption
            If the plan was made without a table.
        EngineFailed
            If the engine does not answer; nothing is spent.
        """
        if not self.sources:
            raise InvalidOption("the plan was made without a table; plan with DATA to run it")
        schema = self.plan.schema.read_with(self.reading)
        if self.plan.engine is not None:
            opened = self.plan.engine.instance.open(self.sources[0], schema)
            return self._opened.enter_context(opened)
        if len(self.sources) > 1:
            # A file that is named twice is one dataset, which a run refuses as two batches.
            read = {id(each): Dataset.from_source(each, schema, batch=True) for each in self.sources}
            return [read[id(each)] for each in self.sources]
        return self.read(self.sources[0], schema, self.plan.assembly.forms)

    def close(self) -> None:
        """Close the tables that were opened; they cannot be read afterwards."""
        self._opened.close()


def propose(wanted: Request, report: Callable[[str], None] = warn) -> Agreed:
    """Return the requested plan. Spends nothing, and uses no value of a record.

    Parameters
    ----------
    wanted
        The request.
    report
        Called with sentences about what the user may not expect, such as a column that is left out; issues
        a warning by default.

    Raises
    ------
    UnknownName, AmbiguousName, InvalidRecipe
        If a part or a recipe does not exist; raised before a table is opened.
    InvalidData, InvalidSchema, InvalidOption
        If the tables cannot be read, or do not have the columns that the public facts name.
    CannotCompose, AgainstPolicy
        If there is no such plan, or the site allows none.

    Examples
    --------
    >>> from dpkit_core import Budget, Schema
    >>> facts = Facts(Schema.numeric(["age", "visits"], "cost"), features=["age"])
    >>> agreed = propose(Request(facts, Budget(1.0, 1e-6)))
    >>> agreed.recommended.recipe, agreed.plan.batches
    ('trees', 1)
    """
    options = dict(wanted.options)
    given = options.pop("engine", {})
    wanted = attrs.evolve(wanted, options=options)
    chosen = _named(wanted)
    # A name that does not exist is told before a large table is read.
    pipeline = None if chosen is None else _pipeline(chosen)
    engine = None if wanted.engine is None else make_engine(wanted.engine, given).instance
    with ExitStack() as opened:
        sources = _opened(wanted.data, wanted.reading, opened)
        schema = wanted.facts.about(next(iter(sources), None), report)
        _require_columns(sources, schema, report, chooser=wanted.facts.chooser)
        recommended = None
        if chosen is None or pipeline is None:
            selecting = wanted.k is not None
            recommended = recommend(schema, wanted.budget, selecting=selecting, batches=len(sources))
            chosen = find_recipe(recommended.recipe).revised(wanted.parts, wanted.options)
            pipeline = _pipeline(chosen)
        shares = (wanted.select_share, chosen.select_share, DEFAULT_SELECT_SHARE)
        share = next(share for share in shares if share is not None)
        batches = max(1, len(sources))
        plan = pipeline.plan(
            schema,
            wanted.budget,
            k=wanted.k,
            select_share=share,
            batches=batches,
            evaluate=wanted.evaluate,
            in_sample=wanted.in_sample,
            engine=engine,
        )
        if recommended is not None and plan.assembly.selection is None:
            # Where auto took all features, it is the recipe without a selection that is planned.
            recommended = recommend(schema, wanted.budget, batches=plan.batches)
        because = [] if recommended is None else [str(recommended)]
        because += [k_in_words(plan)] if wanted.k == AUTO else []
        return Agreed(plan, sources, wanted.reading, recommended, tuple(because), opened=opened.pop_all())


def agreed_in(
    path: Path | str,
    data: Any,
    *,
    reading: ReadOptions = ReadOptions(),
    report: Callable[[str], None] = warn,
) -> Agreed:
    """Return a saved plan and the tables to run it on.

    Parameters
    ----------
    path
        The plan's file.
    data
        A table, or as many in a list as the plan has batches, in the order of their arrival; as of a
        ``Request``.
    reading
        How to read the tables, if that is not obvious.
    report
        As of ``propose``.

    Raises
    ------
    InvalidRelease
        If the file is not a plan, or the installed parts plan something else.
    InvalidOption
        If there are more or fewer tables than the plan is for.
    DpkitError
        Whatever planning again raises, and ``propose`` about tables.
    """
    return agreed_on(read_plan(path, report=report), data, reading=reading, report=report)


def agreed_on(
    plan: Plan,
    data: Any,
    *,
    reading: ReadOptions = ReadOptions(),
    report: Callable[[str], None] = warn,
    chooser: str = "the plan",
) -> Agreed:
    """Return a plan and the tables to run it on; as ``agreed_in``. ``chooser`` has named the columns."""
    tables = _several(data)
    _require_as_many(len(tables), plan.batches)
    with ExitStack() as opened:
        sources = _opened(tables, reading, opened)
        _require_columns(sources, plan.schema, report, chooser=chooser)
        return Agreed(plan, sources, reading, opened=opened.pop_all())


def _named(wanted: Request) -> Recipe | None:
    """Return the named recipe, or one made of the named parts; None if nothing is named."""
    if wanted.recipe is not None:
        return find_recipe(wanted.recipe).revised(wanted.parts, wanted.options)
    return Recipe("", wanted.parts, wanted.options) if wanted.parts.keys() - {"accountant"} else None


def _pipeline(recipe: Recipe) -> Pipeline:
    parts: dict[str, Any] = dict(recipe.parts)
    return compose(**parts, options=recipe.options)


def _opened(tables: Sequence[Any], reading: ReadOptions, opened: ExitStack) -> tuple[Source, ...]:
    """Return the sources of tables; those opened here are closed with ``opened``."""
    sources: list[Source] = []
    named: dict[Path, Source] = {}
    for table in tables:
        name = Path(table).absolute() if isinstance(table, (str, Path)) else None
        if name is not None and name in named:
            sources.append(named[name])
            continue
        sources.append(source := open_source(table, reading))
        if name is not None:
            named[name] = source
        if source is not table:
            opened.callback(source.close)
    return tuple(sources)


def _require_columns(
    sources: Sequence[Source], schema: Schema, report: Callable[[str], None], *, chooser: str
) -> None:
    """Raise unless each table has the schema's columns; report the columns left out, and by what."""
    for source in sources:
        require_columns(source, schema)
    # Batches have the same columns.
    if sources and (unused := unused_columns(sources[0], schema)):
        report(f"not used, because {chooser} does not include them: {', '.join(unused)}")


def _require_as_many(tables: int, batches: int) -> None:
    if tables == batches:
        return
    given = "1 table is given" if tables == 1 else f"{tables} tables are given"
    if batches == 1:
        raise InvalidOption(
            f"{given}, but the plan is for one. Give one, or plan for a stream of that many batches with "
            "`dpkit compose --batches --save`"
        )
    raise InvalidOption(
        f"{given}, but the plan is for a stream of {batches} batches. Give all of them in order of arrival "
        "(a batch may be empty), or make a plan for the batches you have with `dpkit compose --save`"
    )
