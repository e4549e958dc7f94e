"""Verify releases of dpkit with Python's standard library alone, and the schema next to this file.

    python verify_release.py release.json ...

Exit codes are those of ``dpkit verify``: 0 if all are confirmed and private, 5 if one is confirmed but not
private, 2 if one contradicts itself, is not a release, or has an accountant that this program does not know.
Signatures and ledger witnesses are read but not checked; the page about the release file says how.
"""

import datetime
import functools
import itertools
import json
import math
import re
import statistics
import sys
from fractions import Fraction
from pathlib import Path

SCHEMA = Path(__file__).with_name("release-file.schema.json")
CONFIRMED, REFUSED, NOT_PRIVATE = 0, 2, 5

RUNS = (
    ["regressor", "accountant"],
    ["scorer", "selector", "accountant"],
    ["scorer", "selector", "regressor", "accountant"],
    ["accountant"],
)
STAGES = {
    "scoring": "scorer",
    "selection": "selector",
    "regression": "regressor",
    "evaluation": "regressor",
    "in-sample": "regressor",
}
WHERE_SCORED = {"evaluation": "evaluate", "in-sample": "in_sample"}
PICKS = ("ExponentialMechanism", "PermuteAndFlip")
UNSEEN = "no record of the table is one that the model was fitted to"
NOISE = ("Gaussian", "NonSphericalGaussian")
PROVED = ("PureDP", "ApproxDP", "Renyi")


class Refused(Exception):
    """The release contradicts itself, or is not in the form that it must have."""


def require(truth, sentence):
    if not truth:
        raise Refused(sentence)


def verify(text):
    """Return the exit code for the text of a release, and why it is that."""
    try:
        release = read(text)
        require(not (flaw := first_flaw(release, json.loads(SCHEMA.read_text(encoding="utf-8")))), flaw)
        return judge(release)
    except Refused as error:
        return REFUSED, str(error)
    except ArithmeticError as error:
        return REFUSED, f"no total can be computed of such numbers: {error}"


def judge(release):
    """Return the exit code for a release that is as the schema says, and why."""
    certificate = release["certificate"]
    features = features_of(certificate["schema"])
    check_model(release["model"], features, certificate["schema"])
    check_events(certificate)
    check_privacy(certificate)
    (check_search if is_search(certificate) else check_run)(release, features)
    check_features(release, features)
    check_witness(certificate.get("witness"))
    check_total(certificate)
    reasons = [*certificate["reasons"], *vacuous(certificate)]
    return (NOT_PRIVATE, "; ".join(reasons)) if reasons else (CONFIRMED, "confirmed")


# --- Reading: strict JSON ----------------------------------------------------------------------------------


def read(text):
    def unique(pairs):
        require(len(dict(pairs)) == len(pairs), "a key is given twice")
        return dict(pairs)

    def finite(digits):
        require(math.isfinite(number := float(digits)), f"{digits} is no finite number")
        return number

    def whole(digits):
        return int(digits) if len(digits) < 20 else finite(digits)

    try:
        document = json.loads(
            text, object_pairs_hook=unique, parse_constant=finite, parse_float=finite, parse_int=whole
        )
    except (ValueError, RecursionError) as error:
        raise Refused(f"this is not JSON: {error}") from error
    check_plain(document)
    return document


def check_plain(value, depth=0):
    """Refuse what cannot be printed as it is, and what is nested without end."""
    require(not isinstance(value, dict | list) or depth < 64, "something is nested more than 64 times")
    if isinstance(value, str):
        flawed = re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", value)
        require(not flawed, "a text has a control character, or half of a character")
    elif isinstance(value, int):
        require(-(2**63) <= value < 2**63, "a whole number has more than 64 bits")
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            check_plain(inner, depth + 1)


# --- The part of JSON Schema that the schema of releases uses ----------------------------------------------

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def first_flaw(value, schema, root=None, where="the release"):
    """Return what is wrong with a value by a schema, a sentence; None if nothing is."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return None if schema else f"{where} must not be there"

    def flaw(inner, of=value, at=where):
        return first_flaw(of, inner, root, at)

    for keyword, told in schema.items():
        if (found := flaw_by(keyword, told, value, schema, flaw, root, where)) is not None:
            return found
    return None


def flaw_by(keyword, told, value, schema, flaw, root, where):
    number = isinstance(value, int | float) and not isinstance(value, bool)
    keys = value if isinstance(value, dict) else {}
    items = value if isinstance(value, list) else []
    bad = False
    match keyword:
        case "$schema" | "$defs" | "title" | "description" | "then" | "else":
            pass
        case "$ref":
            return flaw(functools.reduce(dict.__getitem__, told.removeprefix("#/").split("/"), root))
        case "type" if told == "number":  # a whole one is written for the float that it is
            bad = not number or float(value) != value
        case "type" if told == "integer":  # 1.0 is not written for 1
            bad = not (number and isinstance(value, int))
        case "type":
            bad = not isinstance(value, TYPES[told])
        case "const":
            bad = not alike(value, told)
        case "enum":
            bad = not any(alike(value, one) for one in told)
        case "minimum":
            bad = number and value < told
        case "maximum":
            bad = number and value > told
        case "exclusiveMinimum":
            bad = number and value <= told
        case "exclusiveMaximum":
            bad = number and value >= told
        case "multipleOf":
            bad = number and value % told != 0
        case "pattern":
            bad = isinstance(value, str) and not re.search(told, value)
        case "minLength":
            bad = isinstance(value, str) and len(value) < told
        case "minItems":
            bad = isinstance(value, list) and len(value) < told
        case "maxItems":
            bad = isinstance(value, list) and len(value) > told
        case "uniqueItems":
            bad = len({json.dumps(item, sort_keys=True) for item in items}) < len(items)
        case "contains":
            bad = isinstance(value, list) and all(flaw(told, item) for item in items)
        case "minProperties":
            bad = isinstance(value, dict) and len(value) < told
        case "required":
            missing = [key for key in told if isinstance(value, dict) and key not in value]
            return f"{where}: {missing[0]} is missing" if missing else None
        case "dependentRequired":
            bad = any(key in keys and not set(needed) <= set(keys) for key, needed in told.items())
        case "properties":
            found = (flaw(inner, keys[key], f"{where}, {key}") for key, inner in told.items() if key in keys)
            return next(filter(None, found), None)
        case "additionalProperties":
            others = keys.keys() - schema.get("properties", {}).keys()
            found = (flaw(told, keys[key], f"{where}, {key}") for key in sorted(others))
            return next(filter(None, found), None)
        case "prefixItems":
            found = (
                flaw(inner, item, f"{where}, item {i}")
                for i, (inner, item) in enumerate(zip(told, items, strict=False))
            )
            return next(filter(None, found), None)
        case "items":
            rest = enumerate(items[len(schema.get("prefixItems", ())) :])
            return next(filter(None, (flaw(told, item, f"{where}, item {i}") for i, item in rest)), None)
        case "allOf":
            return next(filter(None, map(flaw, told)), None)
        case "anyOf":
            bad = all(map(flaw, told))
        case "oneOf":
            bad = sum(not flaw(inner) for inner in told) != 1
        case "not":
            bad = not flaw(told)
        case "if":
            return flaw(schema.get("else" if flaw(told) else "then", True))
        case _:
            raise NotImplementedError(keyword)
    return f"{where} does not fit {keyword}: {json.dumps(told)[:200]}" if bad else None


def alike(a, b):
    return isinstance(a, bool) is isinstance(b, bool) and a == b


# --- The public facts --------------------------------------------------------------------------------------


def features_of(schema):
    """Return the names of all features, in order; refuse facts that contradict each other."""
    columns, target = schema["columns"], schema["target"]
    require(target in columns, "the target is none of the columns")
    require("*" not in columns, "a release names its columns")
    names = []
    for name, column in columns.items():
        check_column(name, column)
        if name != target:
            require(
                column["kind"] != "categorical" or column.get("categories"), f"{name} lists no categories"
            )
            if "buckets" in column:
                names += [f"{name}#{bucket}" for bucket in range(column["buckets"])]
            elif column["kind"] == "categorical":
                names += [f"{name}={category}" for category in column["categories"]]
            else:
                names.append(name)
            if column.get("missing") == "indicator":
                require(f"{name} is missing" not in columns, f"'{name} is missing' has two meanings")
                names.append(f"{name} is missing")
    column = columns[target]
    if column["kind"] == "categorical":
        require("buckets" not in column, "the target is hashed")
        require("positive" in column or len(column.get("categories", ())) >= 2, "the target has one class")
    require(column.get("missing") != "indicator", "the target has an indicator")
    require("yeo_johnson" not in column or {"lower", "upper"} <= set(column), "the target has no bounds")
    if "unit" in schema:
        check_unit(schema["unit"]["column"], columns)
    if "records_about" in schema:
        digits = str(schema["records_about"])
        require(digits == digits[0].ljust(len(digits), "0"), "records_about is no order of magnitude")
    return names


def check_unit(column, columns):
    names = [column] if isinstance(column, str) else column
    require(not set(names) & set(columns), "a column of the unit is a feature or the target")


def check_column(name, column):
    categories = () if "buckets" in column else column.get("categories", ())
    require(column.get("positive", next(iter(categories), None)) in (*categories, None), f"{name}: positive")
    number = datetime.date.fromisoformat if column["kind"] == "date" else float
    try:
        given = {key: number(column[key]) for key in ("lower", "upper") if key in column}
        if column["kind"] != "categorical" and "fill" in column:
            number(column["fill"])
    except ValueError as error:
        raise Refused(f"{name}: {error}") from error
    require(len(given) < 2 or given["lower"] < given["upper"], f"{name}: lower is not below upper")
    if column["kind"] == "categorical":
        require("fill" not in column or column["fill"] in categories, f"{name}: fill is no category")
    elif column.get("missing") == "indicator":
        require("fill" in column or len(given) == 2, f"{name}: nothing to fill in")
    if len(given) == 2 and {"clip", "scale", "yeo_johnson"} & set(column):
        power = column.get("yeo_johnson")
        ends = [given[key] if power is None else yeo_johnson(given[key], power) for key in ("lower", "upper")]
        apart = ends[1] / 2 - ends[0] / 2 > 0 and max(map(abs, ends)) < sys.float_info.max
        require(apart, f"{name}: the bounds are not apart once they are transformed")
    if "format" in column:
        require(says_the_day(column["format"]), f"{name}: a date that is written so cannot be read again")


def says_the_day(format):
    dates = [datetime.datetime(*day, tzinfo=datetime.UTC) for day in ((1987, 6, 4), (2011, 11, 23))]
    try:
        return all(
            datetime.datetime.strptime(date.strftime(format), format).date() == date.date() for date in dates
        )
    except (ValueError, re.error):  # the latter where a code is there twice
        return False


def yeo_johnson(x, power):
    exponent = power if x >= 0 else 2 - power
    size = math.log1p(abs(x))
    try:
        moved = math.expm1(exponent * size) / exponent if exponent else size
    except OverflowError:
        moved = sys.float_info.max
    return math.copysign(moved, x)


# --- The model ---------------------------------------------------------------------------------------------


def columns_of(model):
    """Return the features of a model; none that are known of a kind of somebody else's."""
    kind = model["kind"] if model else None
    if kind == "linear":
        return list(model["coefficients"])
    known = ("row-clipped linear", "winsorized linear", "trees", "class trees")
    return list(model["features"]) if kind in known else []


def check_model(model, features, schema):
    kind, columns = (model["kind"] if model else None), columns_of(model)
    if kind in ("winsorized linear", "trees") and model["bounds"] is not None:
        require(model["bounds"][0] <= model["bounds"][1], "the bounds of the model are not in order")
    if kind == "winsorized linear" and "moments" in model:
        rows = len(columns) + 2
        moments = model["moments"]
        require(len(moments["triangle"]) == rows * (rows + 1) // 2, "the moments are no triangle")
        spread = len(moments.get("spread", range(rows * (rows - 1) // 2)))
        require(spread == rows * (rows - 1) // 2, "the spread is no triangle")
    if kind in ("trees", "class trees"):
        leaves = [len(tree["leaves"]) for tree in model["trees"]]
        depth = max(1, leaves[0].bit_length() - 1) if leaves else 1
        splits = depth if model["shape"] == "oblivious" else 2**depth - 1
        for tree, count in zip(model["trees"], leaves, strict=True):
            require(count == 2**depth and len(tree["splits"]) == splits, "a tree has another size")
            require(all(split[0] < len(columns) for split in tree["splits"]), "a split is on no feature")
    if kind == "trees" and model["linear"] is not None:
        check_model(model["linear"], features, schema)
        require(columns_of(model["linear"]) == columns, "the line of the trees has other features")
    if kind in ("trees", "class trees") and "noise" in model:
        noise, sums = model["noise"], len(model.get("classes", "1"))
        each = len(columns), sums, sums, len(columns) * (model.get("linear") is not None)
        found = tuple(len(noise[key]) for key in ("columns", "leaf", "residual", "slopes"))
        require(found == each, "the noise of the trees is of others")
    if kind == "class trees":
        number = len(model["classes"])
        rows = [model["initial"], *(row for tree in model["trees"] for row in tree["leaves"])]
        require(all(len(row) == number for row in rows), "a leaf has not one value for each class")
        target = schema["columns"][schema["target"]]
        classes = [] if "positive" in target or target["kind"] != "categorical" else target["categories"]
        require(number > 2 and model["classes"] == classes, "the classes are not those of the target")


def check_features(release, features):
    selected, used = release["selected"], columns_of(release["model"])
    require(set(selected) <= set(features), "a selected feature is none of the schema's")
    require(set(used) <= set(selected or features), "the model uses what it may not")


# --- Events ------------------------------------------------------------------------------------------------


def inner_of(event):
    return [event["event"]] if "event" in event else event.get("events", [])


def walk(event):
    yield event
    for inner in inner_of(event):
        yield from walk(inner)


def single(event, times=1):
    """Yield the single events of which one is made, and how often each: a file may say 10^18 times."""
    if event["type"] in ("Repeated", "Disjoint", "Sequence", "Apart", "Filtered"):
        inside = event["parts"] if event["type"] == "Disjoint" else event.get("count", event.get("rounds", 1))
        for inner in inner_of(event):
            yield from single(inner, times * inside)
    else:
        yield event, times


def check_events(certificate):
    every = [inner for event in certificate["events"] for inner in walk(event)]
    facts = {"sensitivity", "sensitivities", "shape", "candidates", "proof"}
    says = any(facts & set(event) for event in every)
    for event in every:
        kind = event["type"]
        relation = event.get("neighboring", certificate["neighboring"])
        require(kind != "Apart" or relation == "add-remove", "sides are for add-remove")
        require(relation == certificate["neighboring"], f"a {kind} is for another relation")
        if kind == "Filtered":
            require(event["charged"] <= event["rounds"], "a filter charges for more rounds than it has")
        if kind == "Renyi":
            require(len(event["orders"]) == len(event["divergences"]), "not one divergence for each order")
        if "sensitivities" in event:
            alike_many = len(event["sensitivities"]) == len(event["noise_multipliers"])
            require(alike_many, "not one sensitivity for each multiplier")
        if says:
            needed = {"Laplace": "shape", "Gaussian": "shape", "NonSphericalGaussian": "shape"}
            needed |= {"StableHistogram": "sensitivity"}
            needed |= dict.fromkeys(PICKS, "candidates") | dict.fromkeys(PROVED, "proof")
            require(kind not in needed or needed[kind] in event, f"a {kind} leaves out what other events say")


def check_privacy(certificate):
    leaks = [e["reason"] for event in certificate["events"] for e in walk(event) if e["type"] == "NonPrivate"]
    planned, reasons = list(dict.fromkeys(leaks)), certificate["reasons"]
    require((certificate["epsilon"] is None) == bool(leaks), "epsilon is claimed where none is proved")
    require(reasons[: len(planned)] == planned, "the reasons are not those of the events")
    seeds, said = len(reasons) - len(planned), certificate["randomness"]
    seeded = "not private" in said
    require(seeds <= 1 and (seeds == 1 or not seeded), "the reasons are not those of the randomness")
    require(seeds == 0 or seeded or "for the noise that it drew" in said, "a reason is of nothing said")
    budget = certificate["budget"]
    require(certificate["delta"] == budget["delta"], "the total is at another delta than the budget")
    require((certificate["epsilon"] or 0) <= budget["epsilon"], "the total is above the budget")


def is_search(certificate):
    return any(event["stage"] not in STAGES for event in certificate["events"])


def check_run(release, features):
    """Refuse events of parts that are not listed, and what came out of no part."""
    certificate, plan = release["certificate"], release["certificate"].get("plan", {})
    roles = [part["role"] for part in certificate["parts"]]
    stages = [event["stage"] for event in certificate["events"]]
    require(roles in RUNS, f"the parts are {roles}")
    require(certificate["parts"][-1]["name"] == certificate["accountant"], "another accountant is listed")
    alone = roles == RUNS[3]
    listed = all(STAGES[stage] in roles or (alone and stage == "evaluation") for stage in stages)
    require(listed, "an event is of no part that is listed")
    for stage in ("selection", "regression"):
        require((STAGES[stage] in roles) == (stage in stages), f"no event is of the {STAGES[stage]}")
    require(stages == sorted(stages, key=list(STAGES).index), "the stages are not in order")
    outcome = release["model"] is not None or release["refusal"] is not None
    require(outcome == ("regressor" in roles), "a regressor is listed exactly where it had an outcome")
    require(roles == RUNS[2] or not {"select_share", "iterates"} & set(plan), "the plan is of other parts")
    require("batches" not in plan or "selector" not in roles, "the plan is for a table, and for batches")
    require("batches" not in plan or "unit" not in certificate["schema"], "a unit may be in several batches")
    check_evaluation(release, alone=alone)
    events = [event for event in certificate["events"] if event["stage"] == "selection"]
    k = len(release["selected"])
    if "selector" not in roles:
        require(k == 0, "nothing selects features, and some are selected")
    elif "iterates" in plan:
        require(k == 0 and len(events) == plan["iterates"], "there is one event for each iterate")
        check_candidates(events, {len(features), len(features) + 1})
    else:
        require(k > 0, "nothing is selected")
        check_picks(events, len(features), k)


def check_evaluation(release, *, alone):
    """Refuse a score of other noise than its events have, or of no model; ``alone`` it is of another's."""
    certificate, found = release["certificate"], release.get("evaluation")
    events = [event for event in certificate["events"] if event["stage"] in ("evaluation", "in-sample")]
    stages = {event["stage"] for event in events}
    plan = certificate.get("plan", {})
    planned = "evaluate" in plan
    if alone:
        which = (found or {}).get("records", "held-out")
        require(found and "of" in found, "no model of another release is scored")
        assumed = UNSEEN in certificate["assumptions"]
        require(assumed == (which == "other"), "that these are other records is assumed where they score")
        require(planned == (which == "held-out"), "which records are held out is not said where they score")
        require(not planned or certificate["neighboring"] == "add-remove", "a replaced record may move")
    else:
        expected = {stage for stage, key in WHERE_SCORED.items() if key in plan}
        require(stages == expected and len(stages) <= 1, "nothing is planned to be scored, or twice")
        require((found is not None) == bool(events and release["model"]), "there is a score of no model")
        by = None if "evaluation" in stages else "fitted"
        own = found is None or ("of" not in found and found.get("records") == by)
        require(own, "a model is scored in its run by other records")
    if events and not alone:
        kept = "in-sample" in stages or certificate["neighboring"] == "add-remove"
        require("batches" not in plan and kept, "records are held out from a table under add-remove")
    if found is not None:
        last, accuracy = events[-1], found["measure"] == "accuracy"
        require(len(events) == (1 if accuracy else 5), "the score is of other events")
        known = last["type"] == "Gaussian" and {"sensitivity", "shape"} <= set(last)
        require(known, "the last event of a score is no Gaussian noise that says what it is added to")
        noise = last["noise_multiplier"] * last["sensitivity"]
        require(math.isclose(found["deviation"], noise, rel_tol=TOLERANCE), "the score has other noise")
        require(len(found["released"]) == math.prod(last["shape"]), "the score has other numbers")
        pairs = len(found["released"]) % 2 == 0 and len(found["released"]) >= 48  # with 22 of cells
        require(not accuracy or pairs, "a class or a cell has one count and not two")
        schema = certificate["schema"]
        number = schema["columns"][schema["target"]]["kind"] != "categorical"
        require(accuracy != number, "accuracy is of categories, and R2 of numbers")


def check_search(release, features):
    """Refuse a search that is not fits of candidates, empty folds under add-remove, and a comparison."""
    certificate = release["certificate"]
    roles = [part["role"] for part in certificate["parts"]]
    stages = [event["stage"] for event in certificate["events"]]
    require(roles[-1] == "accountant" and set(roles[:-1]) == set(RUNS[2][:-1]), f"the parts are {roles}")
    require(certificate["parts"][-1]["name"] == certificate["accountant"], "another accountant is listed")
    nothing = not release["selected"] and release["model"] is None and release["refusal"] is None
    require(nothing and "plan" not in certificate, "a search releases nothing but its certificate")
    found = list(dict.fromkeys(stages))
    candidates = sum(stage.startswith("fits") for stage in found)
    folds = ["folds"] * (certificate["neighboring"] == "add-remove")
    expected = [f"fits of candidate {c}" for c in range(candidates)] + folds + ["comparison"]
    require(candidates and found == expected and stages.count("folds") <= 1, "the stages are of no search")
    require(stages == sorted(stages, key=expected.index), "the stages are not in order")
    compared = [event for event in certificate["events"] if event["stage"] == "comparison"]
    check_candidates(compared, {candidates})


def check_picks(events, offered, k):
    """Refuse picks of a selection of k among so many features that cannot be all that selected them."""
    picks = [pick for event in events for pick in walk(event) if pick["type"] in PICKS]
    listed = [pick["candidates"] for pick in picks if pick.get("candidates") is not None]
    require(all(one <= offered for one in listed), "a pick is among more than there are")
    singles = [(event["type"] in PICKS, times) for each in events for event, times in single(each)]
    if all(is_pick for is_pick, _ in singles):
        picked = sum(times for _, times in singles)
        require(not listed or listed[0] == offered, "the first pick is not among all")
        require(picked == 1 or picked >= k, "there is one pick for all, or one for each")


def check_candidates(events, allowed):
    picks = (pick for event in events for pick in walk(event) if "candidates" in pick)
    require(all(pick["candidates"] in allowed for pick in picks), "a pick is among others")


def check_witness(witness):
    """Refuse a witness that counts other things than its measure, or more than its account allows."""
    if witness is not None:
        measure, total, limits = witness["measure"], witness["total"], witness["limits"]
        units = {"basic": 2, "gdp": 3, "renyi": len(measure.get("orders", ())) + 2}[measure["name"]]
        require(len(total) == len(limits) == units, "the witness counts something else than its measure")
        pairs = zip(total, limits, strict=True)  # null is no limit, and a total without end
        *rest, last = [limit is None or (spent is not None and spent <= limit) for spent, limit in pairs]
        held = all(rest) if measure["name"] == "basic" else any(rest)
        require(held and last, "the account was charged for more than it allows")


def vacuous(certificate):
    """Return why a guarantee that is proved says nothing."""
    epsilon, records = certificate["epsilon"], certificate["schema"].get("records", 0)
    if certificate["private"] and epsilon > 20:
        yield f"epsilon {epsilon:.4g} says nothing"
    if certificate["private"] and certificate["delta"] >= 1 / max(records, 2):
        yield f"delta {certificate['delta']:.3g} would allow publishing one of the records"


# --- The total ---------------------------------------------------------------------------------------------

ORDERS = [i / 10 for i in range(11, 100)] + list(range(10, 65)) + list(range(80, 1025, 16))
SLACK = 1 + 2.0**-32  # what dpkit adds for the rounding of its own formulas
TOLERANCE = 1e-9  # other processors have other last digits


def check_total(certificate):
    name, options = certificate["accountant"], certificate["parts"][-1]["options"]
    home = certificate["parts"][-1]["distribution"]
    known = name in ("basic", "rdp", "individual_filter", "tight")
    require(known and home in ("", own_home(name)), f"this program does not know accountant {name} of {home}")
    orders = options.get("orders", ORDERS)
    require(set(options) <= (set() if name in ("basic", "tight") else {"orders"}), "unknown options")
    listed = isinstance(orders, list | tuple) and orders and all(number_in(a, 1.01, 4096) for a in orders)
    require(listed, "the orders are not from 1.01 to 4096")
    if certificate["epsilon"] is None:
        return
    sampled = [e for event in certificate["events"] for e in walk(event) if e["type"] == "PoissonSampled"]
    require(not sampled or certificate["neighboring"] == "add-remove", "sampling is for add-remove")
    most = certificate["schema"].get("unit", {"most_records": 1})["most_records"]
    events = [grouped(event, most) for event in charged(certificate)]
    if name != "basic":
        events = list(map(together, events))
    everything, delta = {"type": "Sequence", "events": events}, certificate["delta"]
    if name == "basic":
        epsilon, spent = pair(everything)
        epsilon = epsilon if spent <= delta else math.inf
    elif name == "tight":
        epsilon = tight(events, delta)
    else:
        epsilon = converted(everything, delta, orders)
    sentence = f"the events compose to epsilon {epsilon:.9g}, and {certificate['epsilon']:.9g} is claimed"
    require(abs(epsilon - certificate["epsilon"]) <= TOLERANCE * certificate["epsilon"], sentence)


def charged(certificate):
    """Return the events of a certificate; those of an evaluation are apart from all others."""
    events = certificate["events"]
    held_out = [event for event in events if event["stage"] == "evaluation"]
    if not held_out or len(held_out) == len(events):
        return events
    sides = [[event for event in events if event["stage"] != "evaluation"], held_out]
    steps = [{"type": "Sequence", "events": side} for side in sides]
    return [{"type": "Apart", "events": steps, "units": "unit" in certificate["schema"]}]


def together(event):
    """Return an event in which sides are mechanisms that cost as much as the costliest of them."""
    if event["type"] == "Apart":
        most, noise = {}, []
        for side in event["events"]:
            steps = list(leaves(side))
            noise.append([(kind, m, count) for kind, m, count in steps if kind == "noise"])
            others = {}
            for kind, text, count in steps:
                if kind != "noise":
                    others[text] = others.get(text, 0) + count
            most = {text: max(most.get(text, 0), others.get(text, 0)) for text in most | others}
        worst = max(noise, key=lambda side: sum(count / Fraction(m) ** 2 for _, m, count in side))
        events = [({"type": "Gaussian", "noise_multiplier": m}, count) for _, m, count in worst]
        events += [(json.loads(text), count) for text, count in most.items()]
        repeated = [{"type": "Repeated", "event": one, "count": count} for one, count in events]
        return {"type": "Sequence", "events": repeated}
    if "event" in event:
        return event | {"event": together(event["event"])}
    return event | {"events": list(map(together, event["events"]))} if "events" in event else event


def leaves(event, count=1):
    """Yield noise with its multiplier, and other mechanisms as text, each with how often."""
    event = together(event)
    if event["type"] in ("Repeated", "Sequence", "Disjoint"):
        for inner in inner_of(event):
            yield from leaves(inner, count * event.get("count", 1))
    elif event["type"] in (*NOISE, "StableHistogram"):
        yield "noise", event.get("noise_multiplier") or 1 / precision(event) ** 0.5, count
        if "leak" in event:
            leak = {"type": "ApproxDP", "epsilon": 2.0**-1000, "delta": event["leak"]}
            yield "other", json.dumps(leak), count
    else:
        kind = {"PermuteAndFlip": "PureDP"}.get(event["type"], event["type"])
        unpriced = ("stage", "neighboring", "sensitivity", "shape", "candidates", "proof")
        facts = {key: value for key, value in event.items() if key not in unpriced}
        yield "other", json.dumps(facts | {"type": kind}, sort_keys=True), count


def grouped(event, m):
    """Return a bound on an event for m records at once, those of a unit; ``dpkit_core.privacy.units``."""
    kind = event["type"]
    if m == 1 or kind == "StableHistogram":
        return event
    if kind in NOISE:
        keys = {"noise_multiplier", "noise_multipliers"} & set(event)
        return event | {key: divided(event[key], m) for key in keys}
    if kind == "Laplace":
        return event | {"noise_multiplier": event["noise_multiplier"] / m}
    if kind in (*PICKS, "PureDP", "ApproxDP"):
        epsilon, delta = pair(event)
        if delta:
            delta *= math.expm1(m * epsilon) / math.expm1(epsilon)
            require(delta < 1, f"the delta of {m} records together is 1 or more")
        return event | {"epsilon": plus(0.0, m, epsilon), "delta": delta}
    if kind == "PoissonSampled":
        rate = 1 if event["rate"] == 1 else -math.expm1(m * math.log1p(-event["rate"]))
        return event | {"rate": rate, "event": grouped(event["event"], m)}
    if kind in ("Repeated", "Filtered"):
        return event | {"event": grouped(event["event"], m)}
    if kind == "Sequence":
        return event | {"events": [grouped(inner, m) for inner in event["events"]]}
    if kind == "Apart" and event["units"]:
        return event | {"events": [grouped(inner, m) for inner in event["events"]]}
    require(kind == "Disjoint", f"no {kind} is known for {m} records together")
    inside = list(mechanisms(event["event"]))
    if all(mechanism == "noise" for mechanism, *_ in inside):
        joint = sum(count / multiplier**2 for _, multiplier, count in inside) ** -0.5
        return {"type": "Gaussian", "noise_multiplier": joint / m}
    epsilon, delta = pair(event["event"])
    return grouped({"type": "ApproxDP" if delta else "PureDP", "epsilon": epsilon, "delta": delta}, m)


def divided(multipliers, m):
    return [each / m for each in multipliers] if isinstance(multipliers, list) else multipliers / m


def own_home(name):
    return f"dpkit-accountant-{name.replace('_', '-')}"


def number_in(value, lower, upper):
    return isinstance(value, int | float) and not isinstance(value, bool) and lower <= value <= upper


def plus(total, count, value):
    """Return total + count * value, rounded up."""
    if not value or math.inf in (total, value):
        return total + value
    exact = Fraction(total) + count * Fraction(value)
    nearest = float(exact)
    return nearest if exact <= nearest else math.nextafter(nearest, math.inf)


def pair(event):
    """Return epsilon and delta of an event, those inside it added up."""
    kind = event["type"]
    if kind == "Laplace":
        return plus(0.0, 1 / Fraction(event["noise_multiplier"]), 1.0), 0.0
    if kind in (*PICKS, "PureDP", "ApproxDP"):
        return float(event["epsilon"]), float(event.get("delta", 0))
    if kind == "PoissonSampled":
        epsilon, delta = pair(event["event"])
        return amplified(event["rate"], epsilon), plus(0.0, Fraction(event["rate"]), delta)
    if kind == "Apart":
        pairs = list(map(pair, event["events"]))
        return max(epsilon for epsilon, _ in pairs), max(delta for _, delta in pairs)
    require(kind in ("Repeated", "Disjoint", "Sequence"), f"basic has no epsilon for {kind}")
    epsilon = delta = 0.0
    for inner in inner_of(event):
        each = pair(inner)
        count = event.get("count", 1)
        epsilon, delta = plus(epsilon, count, each[0]), plus(delta, count, each[1])
    return epsilon, delta


def amplified(rate, epsilon):
    if epsilon > 700:
        return epsilon
    return min(epsilon, max(5e-324, math.log1p(rate * math.expm1(epsilon)) * (1 + 2.0**-48)))


def converted(event, delta, orders):
    """Return the least epsilon over all orders (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    pure, leaked = worst(event)
    if delta <= leaked:
        return pure if delta == leaked else math.inf
    log_delta = math.log(delta - leaked) + 1 - SLACK
    bounds = [
        divergence(event, a) + math.log1p(-1 / a) - (math.log(a) + log_delta) / (a - 1)
        for a in map(float, orders)
    ]
    return max(0.0, min(pure, *bounds))


def worst(event):
    """Return epsilon of an event, infinity where it has none, and with what probability it fails."""
    kind = event["type"]
    if kind in (*NOISE, "Filtered", "StableHistogram"):
        return math.inf, event.get("leak", 0.0)
    if kind == "Renyi":
        return given(event, math.inf), 0.0
    if kind == "PoissonSampled":
        sampled_alone(event)
        epsilon, leaked = worst(event["event"])
        return amplified(event["rate"], epsilon), plus(0.0, Fraction(event["rate"]), leaked)
    if kind in ("Repeated", "Disjoint", "Sequence"):
        epsilon = leaked = 0.0
        for inner in inner_of(event):
            each = worst(inner)
            count = event.get("count", 1)
            epsilon, leaked = plus(epsilon, count, each[0]), plus(leaked, count, each[1])
        return epsilon, leaked
    return pair(event)


def divergence(event, a):
    """Return the Renyi divergence of order a between neighbors, at most."""
    kind = event["type"]
    if kind in ("Sequence", "Disjoint"):
        return sum(divergence(inner, a) for inner in inner_of(event))
    if kind == "Repeated":
        return event["count"] * divergence(event["event"], a)
    if kind == "Filtered":
        return event["charged"] * filtered(event["event"], a)
    if kind in (*NOISE, "StableHistogram"):  # Mironov 2017, Proposition 7
        return a * precision(event) / 2 * SLACK
    if kind == "Renyi":
        return given(event, a)
    if kind == "PoissonSampled":
        sampled_alone(event)
        if event["rate"] == 1:
            return divergence(event["event"], a)
        if event["event"]["type"] in NOISE:
            return sampled_gaussian(a, precision(event["event"]), event["rate"])
        return response(a, worst(event)[0])
    if kind == "Laplace":
        return laplace(a, worst(event)[0])
    return (
        bounded_range(a, event["epsilon"])
        if kind == "ExponentialMechanism"
        else response(a, event["epsilon"])
    )


def sampled_alone(event):
    inside = [inner["type"] for inner in walk(event["event"])]
    noise = {*NOISE, "Renyi", "Filtered", "StableHistogram"} & set(inside)
    require(not noise or event["event"]["type"] in NOISE, "more than one Gaussian is amplified together")


def precision(event):
    return sum((1 / m) * (1 / m) for m in event.get("noise_multipliers", [event.get("noise_multiplier")]))


def given(event, a):
    """Return the least of the given divergences whose order is at least a."""
    known = zip(event["orders"], event["divergences"], strict=True)
    numbers = [(float(order), float(divergence)) for order, divergence in known]
    return min((divergence for order, divergence in numbers if a <= order), default=math.inf)


def two_points(a, epsilon, quadratic, weight, gain, loss):
    """Return the divergence of a law with two losses, a bound where it is near 0 or large."""
    if epsilon > 50:
        return epsilon
    if a * epsilon < 2**-8:
        return a * quadratic * epsilon * epsilon * SLACK
    if epsilon < 1:
        moment = gain + math.log1p((1 - weight) * math.expm1(-gain - loss))
    else:
        moment = gain + math.log(weight + (1 - weight) * math.exp(-gain - loss))
    return moment / (a - 1) * SLACK


def stable(a, epsilon):
    return max(min(epsilon, 50.0), 2**-8 / a)


def response(a, epsilon):
    """Randomized response, the worst of all that are epsilon-private (Mironov 2017, Proposition 5)."""
    e = stable(a, epsilon)
    return two_points(a, epsilon, 1 / 2, 1 / (1 + math.exp(-e)), (a - 1) * e, (a - 1) * e)


def laplace(a, epsilon):
    """Laplace noise on a grid of 2^-15 of its scale (Mironov 2017, Proposition 6)."""
    e, step = stable(a, epsilon), 2.0**-16
    weight = (1 + math.tanh(step) / math.tanh((2 * a - 1) * step)) / 2
    return two_points(a, epsilon, 1 / 2, weight, (a - 1) * e, a * e)


def bounded_range(a, epsilon):
    """A loss that stays in an interval of length epsilon (Dong, Durfee and Rogers 2020)."""
    e = stable(a, epsilon)
    below = math.log(a * math.expm1((1 - a) * e) / ((a - 1) * math.expm1(-a * e)))
    weight = math.exp(below - e) * math.expm1(-below) / math.expm1(-e)
    return two_points(a, epsilon, 1 / 8, weight, a * (e - below), a * below)


def sampled_gaussian(a, precision, rate):
    """A Gaussian on a Poisson sample (Mironov, Talwar and Zhang 2019), between whole orders by a chord."""
    below = math.floor(a)
    mixture = (1 - (a - below)) * log_mixture(below, precision, rate)
    if a > below:
        mixture += (a - below) * log_mixture(below + 1, precision, rate)
    exponent = math.log(a * (a - 1)) + mixture
    moment = max(exponent, 0.0) + math.log1p(math.exp(-abs(exponent)))
    return min(SLACK * moment / (a - 1), a * precision / 2 * SLACK)


@functools.cache
def log_mixture(order, precision, rate):
    if order == 1:
        return log_mixture(2, precision, rate) - math.log1p(-rate)
    terms = []
    for k in range(2, order + 1):
        x = max(k * (k - 1) * precision / 2, sys.float_info.min)
        ways = math.log(math.comb(order, k)) + k * math.log(rate) + (order - k) * math.log1p(-rate)
        terms.append(ways + x + math.log(-math.expm1(-x)))
    largest = max(terms)
    total = largest + math.log(math.fsum(math.exp(term - largest) for term in terms))
    return total - math.log(order * (order - 1))


def filtered(event, a):
    """What a filter charges for a round: between whole orders (a - 1) times the divergence by a chord."""
    if event["type"] != "PoissonSampled" or event["rate"] == 1:
        return divergence(event, a)
    noise, rate = precision(event["event"]), event["rate"]
    below, above = math.floor(a), math.ceil(a)
    low = (below - 1) * sampled_gaussian(float(below), noise, rate) if below > 1 else 0.0
    high = (above - 1) * sampled_gaussian(float(above), noise, rate)
    return ((1 - (a - below)) * low + (a - below) * high) / (a - 1) * SLACK


# --- Totals by tight: laws that dominate, composed ---------------------------------------------------------

NEGLIGIBLE = 1e-22


def tight(events, delta):
    """Return the least epsilon that is proved for a composition of dominating pairs of laws.

    As ``dpkit_core.privacy.tight``, where the proofs are: picks are covered by a Gaussian, or followed one by
    one, pure mechanisms are randomized response, and losses are kept on a grid.
    """
    everything = {"type": "Sequence", "events": events}
    for event in walk(everything):
        kind = event["type"]
        noisy = (
            kind == "PoissonSampled"
            and event["rate"] != 1
            and {*NOISE, "StableHistogram"} & {e["type"] for e in walk(event)}
        )
        require(kind not in ("Renyi", "Filtered") and not noisy, f"tight has no pair for {kind}")
    least, spare = converted(everything, delta, ORDERS), delta - worst(everything)[1]
    if spare > 0 and 0 < least < math.inf:
        for profile in profiles(everything):
            least = smallest(profile, spare, least)
    return least


def mechanisms(event, count=1):
    """Yield the kind, the parameter and the number of the mechanisms of which an event is made."""
    kind = event["type"]
    if kind in ("Repeated", "Sequence", "Disjoint") or (kind == "PoissonSampled" and event["rate"] == 1):
        for inner in inner_of(event):
            yield from mechanisms(inner, count * event.get("count", 1))
    elif kind in (*NOISE, "StableHistogram"):
        yield "noise", event.get("noise_multiplier") or 1 / precision(event) ** 0.5, count
    elif kind in ("Laplace", "ExponentialMechanism"):
        yield kind, worst(event)[0], count
    else:
        yield "pure", worst(event)[0], count


def profiles(everything):
    """Yield functions from epsilon to delta, each a bound without leaks."""
    noise, kinds = 0.0, {"ExponentialMechanism": {}, "pure": {}, "Laplace": {}}
    picks, pure, laplacian = kinds.values()
    together = {}
    for kind, number, count in mechanisms(everything):
        together[kind, number] = together.get((kind, number), 0) + count
    for (kind, number), count in together.items():
        if kind == "noise":
            noise += count / number / number
        elif number > 60:
            return
        elif kind == "ExponentialMechanism" or count <= 4096:
            kinds[kind][number] = kinds[kind].get(number, 0) + count
        else:
            picks[2 * number] = picks.get(2 * number, 0) + count
    other = noise + sum(n * e * e for e, n in (*pure.items(), *laplacian.items()))
    if 1e-24 < other + cover(picks.items()) < 1e12:
        for followed in followed_picks(picks, other):
            covered = cover(pick for pick in picks.items() if pick[0] != followed)
            count = picks.get(followed, 0)
            yield composed((noise + covered) * (1 + 2.0**-48), followed, count, pure, laplacian)


def followed_picks(picks, other):
    """Yield the picks that are worth the dynamic program, then none."""
    everything, alone = cover(picks.items()), len(picks) == 1
    for epsilon, count in picks.items():
        saved = (
            everything - cover(pick for pick in picks.items() if pick[0] != epsilon) - epsilon**2 / 4 * count
        )
        worth = (other + everything) * (count / 5000 if alone else 1 / 100)
        if count <= 100 and epsilon * count <= 60 and saved > worth:
            yield epsilon
            if alone:
                return
    yield None


def cover(picks):
    """Return the precision of a Gaussian that covers picks."""
    shares = [(epsilon * epsilon / 4, count) for epsilon, count in picks]
    if not shares:
        return 0.0
    largest, most = max(share for share, _ in shares), math.pi / 2
    rest = math.fsum(share * count for share, count in shares) - largest
    if rest <= 0:
        probit = statistics.NormalDist().inv_cdf(1 / (1 + math.exp(-math.sqrt(largest))))
        return min(4 * probit * probit, most * largest) * (1 + 2.0**-40)
    knee = largest / (4 * (most - 1))
    integral = most * min(rest, knee) + max(rest - knee, 0.0)
    integral += largest / 4 * math.log(rest / knee) if rest > knee else 0.0
    return (most * largest + integral) * (1 + 2.0**-40)


def composed(noise, followed, count, pure, laplacian):
    variance = noise + sum(n * e * e for e, n in (*pure.items(), *laplacian.items()))
    step, pairs = math.sqrt(variance + (followed or 0) ** 2 / 4 * count) / 256, []
    if followed is not None:
        own, law = optimum(followed, count)
        step = max(step, own)
        losses = [(own * place, mass) for place, mass in law[0].items()]
        pairs.append(law if step == own else on_grid(losses, step, law[1]))
    elif len(pure) == 1 and not laplacian:
        step = max(step, *pure)
    for epsilon, n in pure.items():
        pairs.append(on_grid(responses(epsilon, n), step, NEGLIGIBLE))
    for epsilon, n in laplacian.items():
        points = (step * i for i in range(math.ceil(epsilon / step) + 1))
        one = of_profile([laplace_profile(x, epsilon) for x in points], step)
        pairs.append(repeated(one, n))
    masses, lost = functools.reduce(then, pairs) if pairs else ({0: 1.0}, 0.0)

    def profile(epsilon):
        at = epsilon * (1 - 2.0**-48)
        total = math.fsum(mass * gaussian_profile(at - step * i, noise) for i, mass in masses.items())
        return min(1.0, (total + lost) * SLACK)

    return profile


def smallest(profile, delta, upper):
    """Return the least epsilon up to ``upper`` whose delta is at most ``delta``, by bisection."""
    if delta < 2.0**-1000 or profile(upper) > delta:
        return upper
    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, upper
    while high - low > upper * 2.0**-40:
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    return high


def gaussian_profile(at, noise):
    """Return delta of Gaussian noise of a precision (Balle and Wang 2018, Theorem 8)."""
    if noise == 0:
        return -math.expm1(min(at, 0.0))
    mu, at = math.sqrt(noise / (1 - 2.0**-28)), at - 2.0**-68
    size = abs(at)
    a, b = size / mu - mu / 2, size / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if mu < 2.0**-14:
        tail = density * mu * (slope(a) + slope(b)) / 2
    elif mu > 50:
        tail = math.erfc(a / 2**0.5) / 2 - math.exp(min(size + log_tail(b), 0.0))
    else:
        tail = density * (mills(a) - mills(b))
    return tail if at >= 0 else math.exp(-size) * tail - math.expm1(-size)


def slope(z):
    return 1 - z * mills(z) if z < 1e4 else 1 / z**2


def log_tail(z):
    return (
        math.log(mills(z)) - z * z / 2 - math.log(2 * math.pi) / 2
        if z > 0
        else math.log(math.erfc(z / 2**0.5) / 2)
    )


def mills(z):
    """Return what a normal law has beyond z, over its density there."""
    if z < 30:
        return math.sqrt(math.pi / 2) * math.exp(z * z / 2) * math.erfc(z / 2**0.5)
    fraction = z
    for k in range(40, 0, -1):
        fraction = z + k / fraction
    return 1 / fraction


def responses(epsilon, count):
    """Return losses and masses of randomized response, so many times."""
    log_odds = math.log1p(math.exp(-epsilon))  # -log of the chance of the truth
    slack = 1 + 2.0**-48 * (1 + math.lgamma(count + 1) + count * epsilon)
    for truths in range(count + 1):
        ways = math.lgamma(count + 1) - math.lgamma(truths + 1) - math.lgamma(count - truths + 1)
        mass = min(1.0, math.exp(ways - count * log_odds - (count - truths) * epsilon) * slack)
        if mass > NEGLIGIBLE / (count + 1):
            yield epsilon * (2 * truths - count), mass


def laplace_profile(x, epsilon):
    if x >= epsilon:
        return 0.0
    return -math.expm1((x - epsilon) / 2 - math.log(math.cosh(2.0**-16)))


def on_grid(losses, step, lost):
    """Return a law on the grid of ``step``: each loss between two points becomes a coin between both."""
    masses = {}
    for loss, mass in losses:
        below = math.floor(loss / step)
        upper = math.expm1(-(loss / step - below) * step) / math.expm1(-step)
        masses[below] = masses.get(below, 0.0) + mass * (1 - upper)
        masses[below + 1] = masses.get(below + 1, 0.0) + mass * upper
    return trimmed(masses, lost)


def of_profile(values, step):
    """Return the symmetric law through delta = values[i] at epsilon = step * i."""
    fall = [(a - b) / math.expm1(step) for a, b in itertools.pairwise(values)] + [0.0]
    masses = {}
    for i, (here, after) in enumerate(itertools.pairwise(fall), start=1):
        masses[i] = max(math.exp(step) * here - after, 0.0)
        masses[-i] = masses[i] * math.exp(-step * i)
    second = values[1] if len(values) > 1 else values[0]
    masses[0] = max(0.0, 1 - ((math.exp(step) + 1) * values[0] - 2 * second) / math.expm1(step))
    return dict(sorted(masses.items())), values[-1]


def then(one, other):
    """Return the composition of two laws on one grid."""
    low, (masses, lost), (others, more) = min(one[0]) + min(other[0]), one, other
    found = [0.0] * (max(masses) + max(others) - low + 1)
    for i, mass in masses.items():
        for j, another in others.items():
            found[i + j - low] += mass * another
    return trimmed(dict(enumerate(found, start=low)), lost + more)


def repeated(law, count):
    if count == 1:
        return law
    half = repeated(law, count // 2)
    twice = then(half, half)
    return then(twice, law) if count % 2 else twice


def trimmed(masses, lost):
    """Return a law without its ends, which count as losing everything."""
    places = sorted(masses)
    dropped = set()
    for order in (places, places[::-1]):
        for place, sum_so_far in zip(order, itertools.accumulate(masses[p] for p in order), strict=True):
            if sum_so_far >= NEGLIGIBLE:
                break
            dropped.add(place)
    kept = {place: masses[place] for place in places if place not in dropped}
    return (kept, lost + math.fsum(masses[place] for place in dropped)) if kept else (masses, lost)


@functools.cache
def optimum(epsilon, count):
    """Return a step and, on its grid, the worst law of so many adaptive picks."""
    cells = 64 if count <= 3 else 32 if count <= 40 else 24
    step, window = epsilon / cells, math.exp(epsilon)
    values = [math.expm1((step * i - epsilon) / 2) ** 2 / -math.expm1(-epsilon) for i in range(cells)] + [0.0]
    shares = [math.expm1(step * i) / math.expm1(epsilon) for i in range(cells, 0, -1)]
    gap = 4 * math.sinh(step / 4) ** 2 / math.expm1(epsilon)
    for picks in range(2, count + 1):
        reach = min(picks * epsilon, 4.5 * math.sqrt(picks) * epsilon + picks * epsilon**2 / 8)
        size = math.ceil(reach / step) + 1
        inside = min(len(values), size + cells)
        g = [0.0] * cells + values[:inside] + [values[-1]] * (size + cells - inside)
        for i in range(cells):
            log_c = -step * (cells - i)
            g[i] = math.exp(log_c) * g[2 * cells - i] - math.expm1(log_c)
        fall = [(a - b) / math.expm1(step) for a, b in itertools.pairwise(g)]
        lines = [a + f for a, f in zip(g, fall, strict=False)]
        up = 1 + 2.0**-50
        excess = [
            math.sqrt(
                max(window * fall[i] * up - fall[i + cells], 0) * max(lines[i] * up - lines[i + cells], 0)
            )
            * math.exp(-step / 2 * (i - cells))
            for i in range(len(fall) - cells)
        ]
        values = [
            max(g[i + j] * (1 - share) + g[i + j + cells] * share for j, share in enumerate(shares))
            + gap * math.exp(step / 2 * i) * max(excess[i : i + cells])
            for i in range(size)
        ]
    return step, of_profile([min(value * (1 + 2.0**-40), 1.0) for value in values], step)


if __name__ == "__main__":
    worst_code = 0
    for path in sys.argv[1:]:
        code, why = verify(Path(path).read_text(encoding="utf-8"))
        words = {CONFIRMED: "", NOT_PRIVATE: "confirmed, NOT PRIVATE: ", REFUSED: "NOT confirmed: "}
        print(f"{path}: {words[code]}{why}")
        worst_code = max(worst_code, code, key=[CONFIRMED, NOT_PRIVATE, REFUSED].index)
    sys.exit(worst_code)
