"""``dpkit compose``: from parts, public facts and a table to a release, in one command."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkit_core.cli._options import (
    AccountOption,
    ChargeOption,
    DecimalOption,
    DelimiterOption,
    ForceOption,
    LedgerOption,
    MissingOption,
    SeedOption,
    SignOption,
    parse_settings,
    split_names,
)
from dpkit_core.commands.options import Format, FormatOption, names_of, note
from dpkit_core.errors import InvalidOption
from dpkit_core.privacy.budget import Budget, Neighboring

if TYPE_CHECKING:
    from dpkit_core.data.readers import Table
    from dpkit_core.data.schema import Schema
    from dpkit_core.pipeline.compose import Pipeline
    from dpkit_core.pipeline.plan import Plan
    from dpkit_core.pipeline.recipes import Recipe
    from dpkit_core.pipeline.recommend import Recommendation

_PARTS = "Parts"
_PRIVACY = "Privacy"
_CHOOSING = "the schema, --features or --target"


def compose(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA",
            help="The private table: .csv or .tsv (also .gz), .parquet, a folder of .parquet files, or .npz "
            "with arrays X, y and names. Not needed for a --dry-run with --schema. Several with --batches.",
            show_default=False,
        ),
    ] = None,
    *,
    batches: Annotated[
        bool,
        typer.Option(
            "--batches",
            help="The tables are batches of records, which the regressor learns from one after the other.",
        ),
    ] = False,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMN", help="The column to predict, unless the schema names it."),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features", metavar="A,B,C", help="Use only these columns; all others by default. Repeatable."
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="Public facts: bounds, categories, neighboring.",
            show_default="TABLE.schema.toml beside the table, else only its column names",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="NAME",
            help="Parts with options that belong together; `dpkit list recipes` names them. What is given "
            "besides wins.",
            autocompletion=names_of("recipes"),
            rich_help_panel=_PARTS,
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            "--scorer",
            metavar="NAME",
            help="How relevant is each feature? Needs a selector.",
            autocompletion=names_of("scorers"),
            rich_help_panel=_PARTS,
        ),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            "--selector",
            metavar="NAME",
            help="Releases the best features by their noisy scores.",
            autocompletion=names_of("selectors"),
            rich_help_panel=_PARTS,
        ),
    ] = None,
    k: Annotated[
        str | None,
        typer.Option(
            "-k",
            metavar="K",
            help="How many features to select, or auto: by public facts, which may be all of them.",
            show_default="5",
            rich_help_panel=_PARTS,
        ),
    ] = None,
    regressor: Annotated[
        str | None,
        typer.Option(
            "--regressor",
            metavar="NAME",
            help="Fits the model; leave it out to release a selection alone.",
            autocompletion=names_of("regressors"),
            rich_help_panel=_PARTS,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ROLE.OPTION=VALUE",
            help="Set an option of a part, such as scorer.penalty=mean; repeatable. `dpkit show` lists them.",
            rich_help_panel=_PARTS,
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(
            "--epsilon",
            metavar="E",
            help="Privacy loss allowed in all: one record changes no probability by more than e^epsilon. "
            "1 is a common choice.",
            rich_help_panel=_PRIVACY,
        ),
    ] = 1.0,
    delta: Annotated[
        float,
        typer.Option(
            "--delta",
            metavar="D",
            help="Probability with which that may fail: far below 1 / records; 0 for pure privacy.",
            rich_help_panel=_PRIVACY,
        ),
    ] = 1e-6,
    neighboring: Annotated[
        Neighboring | None,
        typer.Option(
            "--neighboring",
            help="What one record may do: be added or removed (their number is private), or be replaced "
            "(their number is public).",
            show_default="the schema's, else add-remove",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    accountant: Annotated[
        str | None,
        typer.Option(
            "--accountant",
            metavar="NAME",
            help="Computes the total from the events: tight asks for the least noise, rdp knows more events, "
            "basic is simple and needs no delta.",
            autocompletion=names_of("accountants"),
            show_default="tight where it composes every event, else rdp",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    select_share: Annotated[
        float | None,
        typer.Option(
            "--select-share",
            metavar="SHARE",
            help="Part of the budget for the selection where a regression follows; the rest is the "
            "regression's.",
            show_default="0.05",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    ledger: LedgerOption = None,
    account: AccountOption = None,
    charge: ChargeOption = None,
    sign: SignOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    missing: MissingOption = None,
    seed: SeedOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and stop: no data is used, nothing is spent.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the release.")
    ] = Path("release.json"),
    force: ForceOption = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Also write a page about the release, as HTML."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Also write the plan as TOML, for `dpkit run`."),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Compose parts, plan what each will spend, run the plan on DATA, and certify the release.

    Where no part and no recipe is named, the recipe that suits the public facts is taken, and the plan says
    which and why. The plan is checked before the data is used.

    Exit codes: 0 done; 2 wrong use or bad data, nothing spent; 3 the mechanism refused, which is spent; 4 a
    part failed, or an observer vetoed the release, which is spent.
    """
    import contextlib
    import sys

    from dpkit_core.cli import _execute
    from dpkit_core.cli._inputs import find_schema, records_of
    from dpkit_core.data.readers import Dialect, read_table
    from dpkit_core.files.documents import to_toml
    from dpkit_core.files.writing import reserved
    from dpkit_core.pipeline.planfile import plan_document
    from dpkit_core.pipeline.recipes import find_recipe
    from dpkit_core.pipeline.recommend import recommend

    budget = Budget(epsilon, delta)
    options = parse_settings(settings or [])
    wanted = _one_k(k, options)
    paths = _tables(data or [], batches=batches, needed=not (dry_run and schema))
    written = {"--output": None if dry_run else output, "--save": save, "--report": report}
    _require_apart({option: path for option, path in written.items() if path is not None}, (*paths, schema))
    paid_by = _execute.payer(ledger, account, charge, budget=budget)
    with contextlib.ExitStack() as stack:
        claim = _execute.claimed(output, force=force, inputs=(*paths, schema))
        release = None if dry_run else stack.enter_context(claim)
        page = stack.enter_context(_execute.page_about(None if dry_run else report, force=force))
        saved = None if save is None else stack.enter_context(reserved(save, replace=True))
        with contextlib.redirect_stdout(sys.stderr):
            given = {"scorer": scorer, "selector": selector, "regressor": regressor, "accountant": accountant}
            parts = {role: part for role, part in given.items() if part is not None}
            named = _named(recipe, parts)
            # A name that does not exist is told before a large table is read.
            composed = None if named is None else _composed(named.revised(parts, options), select_share)
            dialect = Dialect(delimiter, decimal, missing)
            tables = [read_table(path, batch=len(paths) > 1, dialect=dialect) for path in paths]
            facts = find_schema(
                next(iter(tables), None),
                path=schema,
                target=target,
                features=split_names(features or []),
                neighboring=neighboring,
            )
            _check_columns(tables, facts, by=_CHOOSING if features or target else "the schema")
            recommended = None
            if composed is None:
                recommended = recommend(facts, budget, selecting=wanted is not None, batches=len(tables))
                composed = _composed(find_recipe(recommended.recipe).revised(parts, options), select_share)
            pipeline, share = composed
            plan = pipeline.plan(facts, budget, k=wanted, select_share=share, batches=max(1, len(tables)))
            recommended = _as_planned(recommended, plan)
        # Data that cannot be used are found before anything is printed or written.
        records = None if release is None or not tables else records_of(tables, facts, pipeline.forms)
        if saved is not None:
            saved.write(to_toml(plan_document(plan)))
            note(f"wrote {save}")
        if format is Format.TABLE:
            _execute.show_plan(plan, paid_by, because=_because(plan, recommended, wanted, dry_run=dry_run))
        elif release is None:
            _print_plan(plan, recommended)
        if release is not None and records is not None:
            _execute.execute(
                plan,
                records,
                seed=seed,
                output=release,
                path=output,
                format=format,
                paid_by=paid_by,
                signer=_execute.signer(sign),
                page=page,
            )


def _require_apart(written: dict[str, Path], inputs: Iterable[Path | None]) -> None:
    """Raise unless each file is written once, and none is written that is also read."""
    from dpkit_core.cli import _execute

    for (one, path), (other, same) in itertools.combinations(written.items(), 2):
        if path.resolve() == same.resolve():
            raise InvalidOption(f"{other} and {one} are both {same}; give each a file of its own")
    for path in written.values():
        _execute.require_elsewhere(path, inputs)


def _check_columns(tables: Sequence[Table], facts: Schema, *, by: str) -> None:
    """Raise unless each table has the columns of the schema; note the columns left out, and ``by`` what."""
    from dpkit_core.cli._inputs import note_unused
    from dpkit_core.data.encode import require_columns

    for table in tables:
        require_columns(table, facts)
    if tables:  # batches have the same columns
        note_unused(tables[0], facts, by=by)


def _print_plan(plan: Plan, recommended: Recommendation | None) -> None:
    import json

    import attrs

    from dpkit_core.pipeline.planfile import forecast_document, plan_document

    document = {
        "plan": plan_document(plan),
        **({"accountant_because": plan.because} if plan.because else {}),
        **({} if recommended is None else {"recommended": attrs.asdict(recommended)}),
        "refused_if_missing": list(plan.schema.without_rule),
        "forecasts": [forecast_document(found) for found in plan.forecasts],
        "warnings": list(plan.warnings),
    }
    print(json.dumps(document, indent=2, allow_nan=False))


def _because(
    plan: Plan, recommended: Recommendation | None, k: int | str | None, *, dry_run: bool
) -> list[str]:
    """Return why these parts and so many features are in the plan, where rules chose them.

    Of a dry run also in which columns a missing value would be refused: a run has looked for them already.
    """
    from dpkit_core.pipeline.plan import missing_lines
    from dpkit_core.pipeline.recommend import AUTO, k_in_words

    found = [] if recommended is None else [str(recommended)]
    found += [k_in_words(plan)] if k == AUTO else []
    return [*found, *missing_lines(plan)] if dry_run else found


def _as_planned(recommended: Recommendation | None, plan: Plan) -> Recommendation | None:
    """Return the recipe that is planned: where ``auto`` took all features, the one without a selection."""
    from dpkit_core.pipeline.recommend import recommend

    if recommended is None or plan.assembly.selection is not None:
        return recommended
    return recommend(plan.schema, plan.budget, batches=plan.batches)


def _named(recipe: str | None, parts: dict[str, str]) -> Recipe | None:
    """Return the recipe that is named; an empty one where parts are, and None where nothing is."""
    from dpkit_core.pipeline.recipes import Recipe, find_recipe

    if recipe is not None:
        return find_recipe(recipe)
    return Recipe("", {}) if parts.keys() - {"accountant"} else None


def _composed(recipe: Recipe, select_share: float | None) -> tuple[Pipeline, float]:
    """Return the pipeline of a recipe, and the selection's share of the budget."""
    from dpkit_core.pipeline.compose import DEFAULT_SELECT_SHARE, compose

    shares = (select_share, recipe.select_share, DEFAULT_SELECT_SHARE)
    share = next(share for share in shares if share is not None)
    parts: dict[str, Any] = dict(recipe.parts)
    return compose(**parts, options=recipe.options), share


def _tables(paths: list[Path], *, batches: bool, needed: bool) -> list[Path]:
    """Return the paths of the tables: one, or several that are said to be batches."""
    if needed and not paths:
        raise InvalidOption("which table? Give DATA, or --schema with --dry-run to see a plan without data")
    if len(paths) > 1 and not batches:
        raise InvalidOption(
            f"{len(paths)} tables are given; if they are batches of one stream, say so with --batches, else "
            "give one"
        )
    return paths


def _one_k(text: str | None, options: dict[str, dict[str, Any]]) -> int | str | None:
    """Return k, which belongs to the pipeline though it may be written as an option of the selector."""
    from dpkit_core.pipeline.recommend import AUTO

    k: int | str | None = text
    if text is not None and text != AUTO:
        try:
            k = int(text)
        except ValueError as error:
            raise InvalidOption(
                f"-k is {text!r}; it must be a whole number of at least 1, or auto"
            ) from error
    if "k" not in options.get("selector", {}):
        return k
    value = options["selector"].pop("k")
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"selector.k is {value!r}; it must be a whole number of at least 1")
    if k is not None and k != value:
        raise InvalidOption(f"-k is {k} and --set selector.k is {value}; give k once")
    return value
