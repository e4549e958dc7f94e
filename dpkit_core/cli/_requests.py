"""What is asked for, in the words of the command line: options that make a ``Request``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpkit_core.commands.options import names_of
from dpkit_core.errors import InvalidOption
from dpkit_core.privacy.budget import Neighboring

#: Of ``compose``, below its options: where whoever has asked for help looks first.
COMPOSE_EXAMPLES = """Examples:

dpkit compose visits.csv --target cost --dry-run

dpkit compose visits.parquet --schema visits.toml --epsilon 0.5 -o q3.json

psql -c 'copy visits to stdout csv header' | dpkit compose - --target cost
"""

_FACTS = "Public facts"
_PARTS = "Parts"
_PRIVACY = "Privacy"
_WRITING = "Writing"

DataArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA",
        help="The private table: a file, a folder, a glob pattern, a database URL, or - for standard "
        "input. `dpkit list sources` lists the formats. Not needed with --dry-run and --schema. Several "
        "with --batches.",
        show_default=False,
    ),
]
BatchesOption = Annotated[
    bool,
    typer.Option(
        "--batches",
        help="The tables are batches of records; the regressor learns from one after the other.",
        rich_help_panel=_FACTS,
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="COLUMN",
        help="The column to predict, unless the schema names it.",
        rich_help_panel=_FACTS,
    ),
]
FeaturesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="A,B,C",
        help="Use only these columns; all others by default. Repeatable.",
        rich_help_panel=_FACTS,
    ),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Public facts: bounds, categories, neighboring.",
        show_default="TABLE.schema.toml next to the table, else only its column names",
        rich_help_panel=_FACTS,
    ),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME",
        help="A set of parts with their options; `dpkit list recipes` names them. Other options override it.",
        autocompletion=names_of("recipes"),
        rich_help_panel=_PARTS,
    ),
]
ScorerOption = Annotated[
    str | None,
    typer.Option(
        "--scorer",
        metavar="NAME",
        help="Scores how relevant each feature is. Needs a selector.",
        autocompletion=names_of("scorers"),
        rich_help_panel=_PARTS,
    ),
]
SelectorOption = Annotated[
    str | None,
    typer.Option(
        "--selector",
        metavar="NAME",
        help="Releases the best features by their noisy scores.",
        autocompletion=names_of("selectors"),
        rich_help_panel=_PARTS,
    ),
]
KOption = Annotated[
    str | None,
    typer.Option(
        "-k",
        metavar="K",
        help="How many features to select, or auto to decide by public facts, which may take all.",
        show_default="5",
        rich_help_panel=_PARTS,
    ),
]
RegressorOption = Annotated[
    str | None,
    typer.Option(
        "--regressor",
        metavar="NAME",
        help="Fits the model; leave it out to release only a selection.",
        autocompletion=names_of("regressors"),
        rich_help_panel=_PARTS,
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="ROLE.OPTION=VALUE",
        help="Set an option of a part, such as scorer.penalty=mean; repeatable. `dpkit show` lists them.",
        rich_help_panel=_PARTS,
    ),
]
EpsilonOption = Annotated[
    float,
    typer.Option(
        "--epsilon",
        metavar="E",
        help="Total privacy loss allowed: one record changes no probability by more than a factor of "
        "e^epsilon. 1 is a common choice.",
        rich_help_panel=_PRIVACY,
    ),
]
DeltaOption = Annotated[
    float,
    typer.Option(
        "--delta",
        metavar="D",
        help="Probability with which that may fail: well below 1 / records; 0 for pure privacy.",
        rich_help_panel=_PRIVACY,
    ),
]
NeighboringOption = Annotated[
    Neighboring | None,
    typer.Option(
        "--neighboring",
        metavar="RELATION",
        help="How tables may differ: add-remove, by one record more or less (the number of records is "
        "private); replace-one, by the values of one record (the number is public).",
        show_default="the schema's, else add-remove",
        rich_help_panel=_PRIVACY,
    ),
]
AccountantOption = Annotated[
    str | None,
    typer.Option(
        "--accountant",
        metavar="NAME",
        help="Computes the total from the events: tight needs the least noise, rdp knows more events, "
        "basic is simple and needs no delta.",
        autocompletion=names_of("accountants"),
        show_default="tight where it composes every event, else rdp",
        rich_help_panel=_PRIVACY,
    ),
]
SelectShareOption = Annotated[
    float | None,
    typer.Option(
        "--select-share",
        metavar="SHARE",
        help="Share of the budget for the selection if a regression follows, which gets the rest.",
        show_default="0.05",
        rich_help_panel=_PRIVACY,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the plan and stop. Nothing is spent.",
        rich_help_panel=_WRITING,
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write the release; - is standard output.",
        rich_help_panel=_WRITING,
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Also write a page about the release, as HTML.",
        rich_help_panel=_WRITING,
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Also write the plan as TOML, for `dpkit run`.",
        rich_help_panel=_WRITING,
    ),
]


def one_k(text: str | None, options: dict[str, dict[str, Any]]) -> int | str | None:
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
