"""``dpkit compose``: from parts, public facts and a table to a release, in one command."""

from __future__ import annotations

from pathlib import Path

from dpkit_core.cli._requests import (
    AccountantOption,
    BatchesOption,
    DataArgument,
    DeltaOption,
    DryRunOption,
    EpsilonOption,
    FeaturesOption,
    KOption,
    NeighboringOption,
    OutputOption,
    RecipeOption,
    RegressorOption,
    ReportOption,
    SaveOption,
    SchemaOption,
    ScorerOption,
    SelectorOption,
    SelectShareOption,
    SettingsOption,
    TargetOption,
    one_k,
)
from dpkit_core.commands.options import (
    AccountOption,
    ChargeOption,
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    ForceOption,
    Format,
    FormatOption,
    LedgerOption,
    MissingOption,
    SeedOption,
    SignOption,
    SpoolOption,
    TableOption,
    ThousandsOption,
    note,
    parse_settings,
    split_names,
)
from dpkit_core.errors import InvalidOption
from dpkit_core.privacy.budget import Budget


def compose(
    data: DataArgument = None,
    *,
    batches: BatchesOption = False,
    target: TargetOption = None,
    features: FeaturesOption = None,
    schema: SchemaOption = None,
    recipe: RecipeOption = None,
    scorer: ScorerOption = None,
    selector: SelectorOption = None,
    k: KOption = None,
    regressor: RegressorOption = None,
    settings: SettingsOption = None,
    epsilon: EpsilonOption = 1.0,
    delta: DeltaOption = 1e-6,
    neighboring: NeighboringOption = None,
    seed: SeedOption = None,
    accountant: AccountantOption = None,
    select_share: SelectShareOption = None,
    ledger: LedgerOption = None,
    account: AccountOption = None,
    charge: ChargeOption = None,
    sign: SignOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    thousands: ThousandsOption = "",
    missing: MissingOption = None,
    encoding: EncodingOption = None,
    table: TableOption = None,
    spool: SpoolOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Path("release.json"),
    force: ForceOption = False,
    report: ReportOption = None,
    save: SaveOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Compose parts, plan what each will spend, run the plan on DATA, and certify the release.

    If you name no part and no recipe, dpkit takes the recipe that suits the public facts, and the plan says
    which and why. The plan is checked before the data is used.

    Exit codes: 0 done; 2 wrong use or bad data, nothing spent; 3 the mechanism refused, which is spent; 4 a
    part failed, or an observer vetoed the release, which is spent.
    """
    from dpkit_core.cli import _execute
    from dpkit_core.cli._outputs import outputs
    from dpkit_core.data.source import ReadOptions
    from dpkit_core.pipeline.facts import Facts
    from dpkit_core.pipeline.request import Request, propose

    if not data and not (dry_run and schema):
        raise InvalidOption("which table? Give DATA, or --schema with --dry-run for a plan without data")
    options = parse_settings(settings or [])
    given = {"scorer": scorer, "selector": selector, "regressor": regressor, "accountant": accountant}
    wanted = Request(
        Facts(schema, target, split_names(features or []), neighboring),
        Budget(epsilon, delta),
        data or (),
        reading=ReadOptions(
            table=table,
            delimiter=delimiter,
            encoding=encoding,
            decimal=decimal,
            thousands=thousands,
            missing=missing or (),
            spool=spool,
        ),
        batches=batches,
        recipe=recipe,
        parts={role: part for role, part in given.items() if part is not None},
        k=one_k(k, options),
        options=options,
        select_share=select_share,
    )
    paid_by = _execute.payer(ledger, account, charge, budget=wanted.budget)
    release, page = (None, None) if dry_run else (output, report)
    with outputs(release, plan=save, page=page, force=force, inputs=(*(data or ()), schema)) as files:
        with _execute.aside():
            agreed = propose(wanted, note)
        _execute.execute(agreed, files, seed=seed, format=format, paid_by=paid_by, sign=sign)
