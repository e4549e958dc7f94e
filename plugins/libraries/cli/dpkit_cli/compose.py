"""``dpkit compose``: from parts, public facts and a table to a release, in one command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import attrs
import typer

from dpkit_cli.options import (
    AnywayOption,
    ForceOption,
    Format,
    FormatOption,
    LedgerOptions,
    OutputOption,
    ReadingOptions,
    SeedOption,
    aside,
    grouped,
    names_of,
    note,
    parse_settings,
    split_names,
)
from dpkit_core.errors import InvalidOption
from dpkit_core.privacy.budget import Budget, Neighboring

if TYPE_CHECKING:
    from dpkit_cli.request import Request

#: Printed at the end of ``dpkit compose --help``.
EXAMPLES = """Examples:

dpkit compose visits.csv --target cost --dry-run

dpkit compose visits.parquet --schema visits.toml --epsilon 0.5 -o q3.json

psql -c 'copy visits to stdout csv header' | dpkit compose - --target cost
"""


@attrs.frozen
class FactOptions:
    """What is public about the table."""

    panel: ClassVar[str] = "Public facts"
    batches: Annotated[
        bool,
        typer.Option(
            "--batches",
            help="The tables are batches of records; the regressor learns from them in turn.",
        ),
    ] = False
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column to predict, unless the schema names it.",
        ),
    ] = None
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,C",
            help="Use only these columns; by default, all but the target. Repeatable.",
        ),
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public facts: bounds, categories, neighboring.",
            show_default="TABLE.schema.toml next to the table, else only its column names",
        ),
    ] = None


@attrs.frozen
class PartOptions:
    """Which parts to compose, and their options."""

    panel: ClassVar[str] = "Parts"
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A set of parts with their options, from `dpkit list recipes`. Other options override it.",
            autocompletion=names_of("recipes"),
        ),
    ] = None
    scorer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Scores how relevant each feature is. Needs a selector.",
            autocompletion=names_of("scorers"),
        ),
    ] = None
    selector: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Releases the best features by their noisy scores.",
            autocompletion=names_of("selectors"),
        ),
    ] = None
    k: Annotated[
        str | None,
        typer.Option(
            "-k",
            metavar="K",
            help="Number of features to select; with auto, public facts decide, and may keep all.",
            show_default="5",
        ),
    ] = None
    regressor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Fits the model; leave it out to release only a selection.",
            autocompletion=names_of("regressors"),
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Leaves the records to a cluster, which computes sums there; `dpkit list engines`.",
            autocompletion=names_of("engines"),
            show_default="this process",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ROLE.OPTION=VALUE",
            help="Set an option of a part, such as scorer.penalty=mean, or of the engine; repeatable. `dpkit "
            "show` lists them.",
        ),
    ] = None


@attrs.frozen
class PrivacyOptions:
    """What the release may cost, and how the cost is counted."""

    panel: ClassVar[str] = "Privacy"
    epsilon: Annotated[
        float,
        typer.Option(
            metavar="E",
            help="Total privacy loss allowed: one record changes no probability by more than a factor of "
            "e^epsilon. 1 is a common choice.",
        ),
    ] = 1.0
    delta: Annotated[
        float,
        typer.Option(
            metavar="D",
            help="Probability with which that may fail: well below 1 / records; 0 for pure privacy.",
        ),
    ] = 1e-6
    neighboring: Annotated[
        Neighboring | None,
        typer.Option(
            metavar="RELATION",
            help="How tables may differ: add-remove, by one record more or less (the number of records is "
            "private); replace-one, by the values of one record (the number is public).",
            show_default="the schema's, else add-remove",
        ),
    ] = None
    seed: SeedOption = None
    accountant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Computes the total from the events: tight needs the least noise, rdp supports more events, "
            "basic is simple and needs no delta.",
            autocompletion=names_of("accountants"),
            show_default="tight where it composes every event, else rdp",
        ),
    ] = None
    evaluate: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Hold out this share of the records, such as .1, and score the model on them.",
        ),
    ] = None
    in_sample: Annotated[
        float | None,
        typer.Option(
            "--in-sample",
            metavar="SHARE",
            help="Score the model on the records of its fit for this share of the budget, such as .3: "
            "optimistic, and less noisy than a score on few records held out.",
        ),
    ] = None
    select_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the budget that the selection gets; a regression after it gets the rest.",
            show_default="0.05",
        ),
    ] = None


@attrs.frozen
class WritingOptions:
    """What is written, and where."""

    panel: ClassVar[str] = "Writing"
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the plan and stop. Nothing is spent.",
        ),
    ] = False
    output: OutputOption = Path("release.json")
    force: ForceOption = False
    anyway: AnywayOption = False
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page about the release, as HTML.",
        ),
    ] = None
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the plan as TOML, for `dpkit run`.",
        ),
    ] = None


@grouped
def compose(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="The private table: a file, a folder, a glob pattern, a database URL, or - for standard "
            "input. `dpkit list sources` lists the formats. Not needed with --dry-run and --schema. Several "
            "with --batches.",
            show_default=False,
        ),
    ] = None,
    *,
    facts: FactOptions,
    parts: PartOptions,
    privacy: PrivacyOptions,
    ledger: LedgerOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
    format: FormatOption = Format.TABLE,
) -> None:
    """Compose parts, plan what each will spend, run the plan on DATA, and certify the release.

    If you name no part and no recipe, dpkit picks the recipe that suits the public facts, and the plan says
    which and why. The plan is checked before the data is used.

    Exit codes: 0 done; 2 wrong use or bad data, nothing is spent; 3 the mechanism refused, and the budget is
    spent; 4 a part failed or an observer vetoed the release, and the budget is spent.
    """
    from dpkit_cli.execute import execute
    from dpkit_cli.outputs import outputs
    from dpkit_cli.request import propose

    wanted = _request(data or [], facts, parts, privacy, reading, dry_run=writing.dry_run)
    paid_by = ledger.payer(wanted.budget)
    release, page = (None, None) if writing.dry_run else (writing.output, writing.report)
    inputs = (*wanted.data, facts.schema)
    with outputs(release, plan=writing.save, page=page, force=writing.force, inputs=inputs) as files:
        with aside():
            agreed = propose(wanted, note)
        execute(
            agreed,
            files,
            seed=privacy.seed,
            format=format,
            paid_by=paid_by,
            sign=ledger.sign,
            anyway=writing.anyway,
        )


vars(compose)["epilog"] = EXAMPLES


def _request(
    data: Sequence[str],
    facts: FactOptions,
    parts: PartOptions,
    privacy: PrivacyOptions,
    reading: ReadingOptions,
    *,
    dry_run: bool,
) -> Request:
    """Return what is asked for in the words of the command line."""
    from dpkit_cli.facts import Facts
    from dpkit_cli.request import Request

    if not data and not (dry_run and facts.schema):
        raise InvalidOption("no table is given; give DATA, or plan without data with --schema and --dry-run")
    options = parse_settings(parts.settings or [])
    named = {
        "scorer": parts.scorer,
        "selector": parts.selector,
        "regressor": parts.regressor,
        "accountant": privacy.accountant,
    }
    return Request(
        Facts(facts.schema, facts.target, split_names(facts.features or []), privacy.neighboring),
        Budget(privacy.epsilon, privacy.delta),
        data,
        reading=reading.read_options(),
        batches=facts.batches,
        recipe=parts.recipe,
        parts={role: part for role, part in named.items() if part is not None},
        k=_one_k(parts.k, options),
        options=options,
        select_share=privacy.select_share,
        evaluate=privacy.evaluate,
        in_sample=privacy.in_sample,
        engine=parts.engine,
    )


def _one_k(text: str | None, options: dict[str, dict[str, Any]]) -> int | str | None:
    """Return k, which belongs to the pipeline though it may be written as an option of the selector."""
    from dpkit_core.pipeline.choose import AUTO

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
