"""What is asked for, by whoever asks: the command line, a plan file, a program.

    wanted = Request(Facts(Path("visits.schema.toml")), Budget(1.0, 1e-6), ["visits.parquet"])
    agreed = propose(wanted)               tables opened, public facts found, parts chosen, plan made
    print(agreed.plan)                     what will be spent, and on what; nothing is spent yet
    release = agreed.plan.run(agreed.records())

A request names public facts, parts and a budget, and where the records are. ``propose`` makes a plan of it,
and decides what it leaves open by public facts alone: which recipe, how many features, what share the
selection has. ``agreed_in`` takes a plan that was saved instead. Either way, whatever can be refused is
refused before anything is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.data.dataset import AnyDataset
from dpkit_core.data.encode import LARGE, encode, require_columns, stream_table, unused_columns
from dpkit_core.data.readers import PLAIN, Dialect, Table, read_table
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidOption
from dpkit_core.pipeline.compose import DEFAULT_SELECT_SHARE, Pipeline, compose
from dpkit_core.pipeline.facts import Facts
from dpkit_core.pipeline.observers import warn
from dpkit_core.pipeline.plan import Plan, Records
from dpkit_core.pipeline.planfile import read_plan
from dpkit_core.pipeline.recipes import Recipe, find_recipe
from dpkit_core.pipeline.recommend import AUTO, Recommendation, k_in_words, recommend
from dpkit_core.privacy.budget import Budget
from dpkit_core.validators import frozen_mapping


def _paths(data: Path | str | Iterable[Path | str]) -> tuple[Path | str, ...]:
    """Return several paths as they are, and one as the only one."""
    return (data,) if isinstance(data, Path | str) else tuple(data)


@attrs.frozen
class Request:
    """Public facts, a budget, and where the records are; parts, where somebody names them.

    Attributes
    ----------
    facts
        What is public about the table.
    budget
        What all parts together may cost.
    data
        Paths of tables: one, or the batches of a stream in the order of their arrival. None for a plan alone.
    dialect
        How text files among them are written.
    batches
        Whether several tables are batches of one stream.
    recipe
        A recipe by name, or by the path of its file.
    parts
        Role -> name of an installed part. They win over those of the recipe. Where neither a recipe nor a
        part other than the accountant is named, the recipe that suits the public facts is taken.
    options
        Role -> option -> value, for the parts.
    k
        How many features to select; ``"auto"`` lets the public facts say.
    select_share
        Fraction of the budget for the selection; by default the recipe's, else
        ``dpkit_core.pipeline.compose.DEFAULT_SELECT_SHARE``.

    Raises
    ------
    InvalidOption
        If there are several tables that are not said to be batches.
    """

    facts: Facts
    budget: Budget
    data: tuple[Path | str, ...] = attrs.field(default=(), converter=_paths)
    dialect: Dialect = attrs.field(default=PLAIN, kw_only=True)
    batches: bool = attrs.field(default=False, kw_only=True)
    recipe: str | None = attrs.field(default=None, kw_only=True)
    parts: Mapping[str, str] = attrs.field(factory=dict, converter=frozen_mapping, kw_only=True)
    options: Mapping[str, Mapping[str, Any]] = attrs.field(
        factory=dict, converter=frozen_mapping, kw_only=True
    )
    k: int | str | None = attrs.field(default=None, kw_only=True)
    select_share: float | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if len(self.data) > 1 and not self.batches:
            raise InvalidOption(
                f"{len(self.data)} tables are given; if they are batches of one stream, say so with "
                "--batches, else give one"
            )


@attrs.frozen(eq=False)
class Agreed:
    """A plan, and the tables that it is about; nothing is spent yet.

    Attributes
    ----------
    plan
        What each part will spend.
    tables
        Opened, with the columns that the plan's schema names.
    recommended
        The recipe that was chosen by public facts, where nobody named one.
    because
        Why it was, and why there are so many features, where rules decided; a sentence each.
    """

    plan: Plan
    tables: tuple[Table, ...]
    recommended: Recommendation | None = None
    because: tuple[str, ...] = ()

    def records(self) -> Records:
        """Return what the plan is run on: the table, or the batches of a stream, which may have no records.

        Raises
        ------
        InvalidData
            If the records are not what the schema says; nothing is spent.
        InvalidOption
            If the plan was made without a table.
        """
        schema = self.plan.schema
        if not self.tables:
            raise InvalidOption(
                "the plan was made without a table, so there is nothing to run it on; give DATA"
            )
        if len(self.tables) > 1:
            return [encode(table, schema, batch=True) for table in self.tables]
        return dataset_of(self.tables[0], schema, self.plan.assembly.forms)


def propose(wanted: Request, report: Callable[[str], None] = warn) -> Agreed:
    """Return the plan that is asked for. Spends nothing, and uses no value of a record.

    Parameters
    ----------
    wanted
        What is asked for.
    report
        Called with a sentence about what the user may not have meant, such as a column that is left out; a
        warning by default.

    Raises
    ------
    UnknownName, AmbiguousName, InvalidRecipe
        If a part or a recipe is not there; told before a table is opened.
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
    chosen = _named(wanted)
    # A name that does not exist is told before a large table is read.
    pipeline = None if chosen is None else _pipeline(chosen)
    tables = _opened(wanted.data, wanted.dialect)
    schema = wanted.facts.about(next(iter(tables), None), report)
    _require_columns(tables, schema, report, chooser=wanted.facts.chooser)
    recommended = None
    if chosen is None or pipeline is None:
        recommended = recommend(schema, wanted.budget, selecting=wanted.k is not None, batches=len(tables))
        chosen = find_recipe(recommended.recipe).revised(wanted.parts, wanted.options)
        pipeline = _pipeline(chosen)
    shares = (wanted.select_share, chosen.select_share, DEFAULT_SELECT_SHARE)
    share = next(share for share in shares if share is not None)
    plan = pipeline.plan(schema, wanted.budget, k=wanted.k, select_share=share, batches=max(1, len(tables)))
    if recommended is not None and plan.assembly.selection is None:
        # Where auto took all features, it is the recipe without a selection that is planned.
        recommended = recommend(schema, wanted.budget, batches=plan.batches)
    because = [] if recommended is None else [str(recommended)]
    because += [k_in_words(plan)] if wanted.k == AUTO else []
    return Agreed(plan, tables, recommended, tuple(because))


def agreed_in(
    path: Path | str,
    data: Sequence[Path | str],
    *,
    dialect: Dialect = PLAIN,
    report: Callable[[str], None] = warn,
) -> Agreed:
    """Return the plan in a file that was saved, and the tables to run it on.

    Parameters
    ----------
    path
        The plan's file.
    data
        As many tables as the plan has batches, in the order of their arrival.
    dialect
        How text files among them are written.
    report
        As of ``propose``.

    Raises
    ------
    InvalidRelease
        If the file is no plan, or the installed parts plan otherwise.
    InvalidOption
        If there are more or fewer tables than the plan is for.
    DpkitError
        Whatever planning again raises, and ``propose`` about tables.
    """
    plan = read_plan(path, report=report)
    _require_as_many(len(data), plan.batches)
    tables = _opened(data, dialect)
    _require_columns(tables, plan.schema, report, chooser="the plan")
    return Agreed(plan, tables)


def dataset_of(table: Table, schema: Schema, forms: Sequence[str]) -> AnyDataset:
    """Return the encoded table in one of ``forms``.

    Large Parquet files are streamed where that is among the forms. Sums are the same in all forms, so the
    choice shows in time and memory alone.
    """
    large = 8 * table.rows * len(schema.features) > LARGE and table.blocks is not None
    return stream_table(table, schema) if large and "streamed" in forms else encode(table, schema)


def _named(wanted: Request) -> Recipe | None:
    """Return the recipe that is named; one of the parts where they are, and None where nothing is."""
    if wanted.recipe is not None:
        return find_recipe(wanted.recipe).revised(wanted.parts, wanted.options)
    return Recipe("", wanted.parts, wanted.options) if wanted.parts.keys() - {"accountant"} else None


def _pipeline(recipe: Recipe) -> Pipeline:
    parts: dict[str, Any] = dict(recipe.parts)
    return compose(**parts, options=recipe.options)


def _opened(data: Sequence[Path | str], dialect: Dialect) -> tuple[Table, ...]:
    return tuple(read_table(path, batch=len(data) > 1, dialect=dialect) for path in data)


def _require_columns(
    tables: Sequence[Table], schema: Schema, report: Callable[[str], None], *, chooser: str
) -> None:
    """Raise unless each table has the columns of the schema; report the columns left out, and by what."""
    for table in tables:
        require_columns(table, schema)
    # Batches have the same columns.
    if tables and (unused := unused_columns(tables[0], schema)):
        report(f"not used, because {chooser} leaves them out: {', '.join(unused)}")


def _require_as_many(tables: int, batches: int) -> None:
    if tables == batches:
        return
    given = "1 table is given" if tables == 1 else f"{tables} tables are given"
    if batches == 1:
        raise InvalidOption(
            f"{given}, and the plan is for one. Give one, or plan for a stream of as many batches with "
            "`dpkit compose --batches --save`"
        )
    raise InvalidOption(
        f"{given}, and the plan is for a stream of {batches} batches. Give all of them in the order of their "
        "arrival (one may have no records), or plan for as many as there are with `dpkit compose --save`"
    )
