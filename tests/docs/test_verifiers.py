"""The strict reader, the JSON Schema and the program without dependencies agree on every single edit."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from dpkit_command_report.page import page
from dpkit_command_verify.replan import replan
from edits import edits, places, put
from jsonschema import Draft202012Validator
from releases import corpus

from dpkit_core import Release, verify
from dpkit_core.errors import DpkitError, InvalidRelease
from dpkit_core.privacy import events
from dpkit_core.release.verify import TOTALS

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "docs/reference/verify_release.py"
PAGE = (ROOT / "docs/reference/release-file.md").read_text(encoding="utf-8")
SCHEMA = json.loads((ROOT / "docs/reference/release-file.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
OLD = sorted(ROOT.glob("tests/compat/v*/*ed/*.json"))
CONFIRMED, REFUSED, NOT_PRIVATE = 0, 2, 5
SHAPES = (
    "table", "witness", "renyi", "transforms", "trees", "classes", "batches", "iterates", "search", "share",
    "tight", "events", "sums", "refused", "units", "scored", "counted", "rated", "optimistic", "others",
    "parties", "groups", "seen",
)  # fmt: skip

spec = importlib.util.spec_from_file_location("verify_release", PROGRAM)
alone = importlib.util.module_from_spec(spec)
spec.loader.exec_module(alone)


@pytest.fixture(scope="module")
def documents():
    return corpus()


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def by_dpkit(document):
    """Return the exit code of ``dpkit verify``."""
    try:
        found = verify(Release.from_document(document))
    except DpkitError:
        return REFUSED
    if not found.confirmed:
        return REFUSED
    return CONFIRMED if found.private else NOT_PRIVATE


def by_program(document):
    return alone.verify(json.dumps(document))[0]


def agree(document, what=""):
    """Return the verdict on which all agree."""
    code, other = by_dpkit(document), by_program(document)
    assert code == other, (what, code, alone.verify(json.dumps(document)))
    # The schema may let pass what they refuse, so it is asked only of what they confirm.
    assert code == REFUSED or VALIDATOR.is_valid(document), (what, "confirmed, and the schema refuses it")
    return code


@pytest.mark.slow
def test_the_corpus_has_every_event_and_every_kind_of_model(documents):
    assert set(documents) == set(SHAPES)
    said = json.dumps([*documents.values(), *map(read, OLD)])
    types = {each["$ref"].removeprefix("#/$defs/") for each in SCHEMA["$defs"]["event"]["oneOf"]}
    kinds = {"linear", "row-clipped linear", "winsorized linear", "trees", "class trees"}
    absent = {name for name in types if f'"type": "{name}"' not in said}
    assert not absent, "add new events to EVERY in tests/shared/releases.py"
    assert all(f'"kind": "{name}"' in said for name in kinds)


@pytest.mark.slow
def test_every_release_of_the_corpus_is_confirmed_by_all(documents):
    for name, document in documents.items():
        assert agree(document, name) == (NOT_PRIVATE if name == "share" else CONFIRMED)


@pytest.mark.first(20)
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_every_release_of_old_is_confirmed_by_all(path):
    document = read(path)
    assert agree(document) == (CONFIRMED if document["certificate"]["private"] else NOT_PRIVATE)


# What no edit in one place shows, without planning again or a signature; the page lists these kinds.
UNSEEN = {
    "words": r"refusal|refusal_code|(certificate/(arithmetic|assumptions|randomness|dpkit|reasons/\d+).*)"
    r"|certificate/parts/\d+(/(proof|reference|version|name|distribution|options.*|libraries.*))?"
    r"|certificate/engine/(name|distribution|version)"
    r"|certificate/events/.*(proof|reason)|certificate/schema/assertions.*",
    "values": r"selected.*|model.*|evaluation.*",
    "what was charged": r"certificate/witness.*|signature.*",
    "public facts": r"certificate/schema/(columns|records|records_about|unit/column).*"
    r"|certificate/budget/epsilon",
    "settings of the plan": r"certificate/plan.*",
    "events": r"certificate/events(/(events|event|\d+))*(/(stage|type))?"
    r"|certificate/events/.*(sensitivity|sensitivities|shape|candidates|parts|rounds|delta|orders|divergences).*"
    r"|certificate/events/.*noise_multipliers|certificate/events/\d+/units",
    "a billionth": r"certificate/epsilon|certificate/events/.*leak",
}


def covered(document):
    """Return the paths of noise that another side of an ``Apart`` covers: in the corpus, on the second."""
    return {
        path
        for path, value in places(document["certificate"]["events"], ("certificate", "events"))
        if isinstance(value, dict)
        and value.get("type") == "Gaussian"
        and path[-4:] == ("events", 1, "events", 0)
    }


def walk(document, step=1, first=0):
    """Assert that all agree on every ``step``-th edit; return how many there were, and were confirmed.

    Of those confirmed, changes of released values are not counted: without a signature, nobody can see one.
    """
    tried, confirmed = 0, []
    for number, (what, edited) in enumerate(edits(document)):
        if number % step == first % step:
            tried += 1
            if agree(edited, what) != REFUSED:
                confirmed.append(what)
    kinds = [re.compile(pattern) for pattern in UNSEEN.values()]
    if document["certificate"]["epsilon"] is None:  # nothing is added up
        kinds.append(re.compile("certificate/events/.*"))
    negligible = {  # where a millionth is less than a billionth of the total
        "/".join(map(str, path))
        for path, value in places(document["certificate"]["events"], ("certificate", "events"))
        if (path[-1] == "epsilon" and (value < 1e-9 or 0 < 1 - value < 1e-12))
        or (path[-1] == "noise_multiplier" and value > 1e3)
    }
    negligible |= {  # an evaluation costs nothing beside a fit of more noise
        f"certificate/events/{n}/noise_multiplier"
        for n, event in enumerate(document["certificate"]["events"])
        if event["stage"] == "evaluation" and document["model"] is not None
    }
    negligible |= {f"{'/'.join(map(str, path))}/noise_multiplier" for path in covered(document)}
    # Of noise on a sample, the precision counts by the square of the rate.
    negligible |= {
        f"certificate/events/{n}/event/noise_multiplier"
        for n, event in enumerate(document["certificate"]["events"])
        if event["type"] == "PoissonSampled"
        and event["event"].get("noise_multiplier", 0) > 250 * event["rate"]
    }
    millionth = re.compile(
        r"certificate/events/.*(rate|noise_multiplier): a little more"
    )  # of one among many
    confirmed = [what for what in confirmed if not millionth.fullmatch(what)]
    for what in confirmed:
        path = what.rpartition(": ")[0]
        told = any(kind.fullmatch(path) for kind in kinds) or path in negligible
        assert told, f"{what} is confirmed, and the page does not say so"
    values = re.compile(UNSEEN["values"])
    return tried, sum(not values.fullmatch(what.rpartition(": ")[0]) for what in confirmed)


@pytest.mark.slow
def test_all_agree_on_a_sample_of_single_edits(documents):
    tried = [walk(document, step=499, first=37 * n)[0] for n, document in enumerate(documents.values())]
    tried += [walk(read(path), step=4999, first=37 * n)[0] for n, path in enumerate(OLD)]
    assert sum(tried) > 50


@pytest.mark.slow
def test_all_refuse_orders_that_are_no_list(documents):
    document = documents["events"]
    last = len(document["certificate"]["parts"]) - 1
    for orders in (True, 8.0, "8", {"8": 8}, []):
        assert agree(put(document, ("certificate", "parts", last, "options", "orders"), orders)) == REFUSED


def test_events_that_a_file_says_to_be_very_many_are_not_listed(documents):
    document = json.loads(json.dumps(documents["table"]))
    listed = document["certificate"]["events"]
    place = next(i for i, event in enumerate(listed) if event["type"] == "ExponentialMechanism")
    stage = listed[place].pop("stage")
    listed[place] = {"stage": stage, "type": "Repeated", "event": listed[place], "count": 10**15}
    assert by_dpkit(document) == by_program(document) == REFUSED


def test_all_refuse_a_whole_number_that_no_float_is(documents):
    document = documents["table"]
    assert agree(put(document, ("certificate", "budget", "epsilon"), 2**53)) == CONFIRMED
    assert agree(put(document, ("certificate", "budget", "epsilon"), 2**53 + 1)) == REFUSED


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_all_agree_on_a_fortieth_of_the_edits_of_every_shape(documents, name):
    tried, confirmed = walk(documents[name], step=41)
    assert tried > 2 * confirmed > 0  # most edits are seen


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SHAPES)
def test_all_agree_on_every_edit_of_every_shape(documents, name):
    assert walk(documents[name])[0] > 500


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_all_agree_on_every_edit_of_every_release_of_old(path):
    assert walk(read(path))[0] > 500


def lists_of_events(document):
    """Yield the path and content of each list of events."""
    for path, value in places(document):
        if path and path[-1] == "events":
            yield path, value


@pytest.mark.parametrize(
    "path", [path for path in OLD if path.parent.name == "released"], ids=lambda p: p.stem
)
def test_an_event_left_out_of_a_release_of_old_is_missed(path):
    document = read(path)
    if document["certificate"]["epsilon"] is None:
        pytest.skip("what is not private at all has no total that an event could be missed in")
    for where, listed in lists_of_events(document):
        for i in range(len(listed)):
            assert agree(put(document, where, listed[:i] + listed[i + 1 :])) == REFUSED


@pytest.mark.first(2)
@pytest.mark.parametrize("name", SHAPES)
def test_an_event_left_out_is_missed(documents, name):
    for where, listed in lists_of_events(documents[name]):
        for i in range(len(listed)):
            expected = CONFIRMED if (*where, i) in covered(documents[name]) else REFUSED
            assert agree(put(documents[name], where, listed[:i] + listed[i + 1 :]), where) == expected


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("table", ("certificate", "parts"), []),
        ("table", ("selected",), []),
        ("share", ("selected",), []),
        ("transforms", ("selected",), []),
        ("transforms", ("certificate", "events", 0, "candidates"), 60),
        ("table", ("certificate", "events", 0, "candidates"), 1),
        ("search", ("certificate", "events", -1, "candidates"), 20),
        ("iterates", ("certificate", "plan"), {"iterates": 3}),
        ("classes", ("model", "classes"), ["red", "green", "grey"]),
        ("units", ("certificate", "schema", "unit", "most_records"), 2),
        ("units", ("certificate", "schema", "unit", "most_records"), 4),
        ("units", ("certificate", "schema", "unit", "most_records"), 2**20 + 1),
        ("units", ("certificate", "schema", "unit", "column"), ["patient", "a"]),
        ("units", ("certificate", "schema", "unit", "column"), ["patient"]),
        ("units", ("certificate", "schema", "unit", "column"), "z"),
        ("groups", ("certificate", "events", 0, "noise_multiplier"), 5e-324),
        ("groups", ("certificate", "events", 2, "epsilon"), 1e308),
        ("groups", ("certificate", "events", 2, "epsilon"), 700.0),
    ],
)
def test_what_the_events_say_of_parts_and_selection_has_to_be_so(documents, name, path, value):
    assert agree(put(documents[name], path, value)) == REFUSED


def test_a_plan_for_batches_protects_no_unit(documents):
    for name, verdict in (("units", REFUSED), ("witness", CONFIRMED)):
        certificate = {**documents[name]["certificate"], "plan": {"batches": 2}}
        assert agree(put(documents[name], ("certificate",), certificate), name) == verdict


def test_a_total_above_that_of_the_events_is_no_total(documents):
    document = documents["table"]
    for change in (1 + 1e-7, 1 - 1e-7):
        epsilon = document["certificate"]["epsilon"] * change
        release = Release.from_document(put(document, ("certificate", "epsilon"), epsilon))
        assert not verify(release).confirmed
        assert agree(put(document, ("certificate", "epsilon"), epsilon)) == REFUSED


def test_an_accountant_that_proves_less_than_another_ones_total_confirms_it(documents):
    release = Release.from_document(documents["witness"])
    assert verify(release, "tight").confirmed
    assert verify(release, "tight").epsilon <= release.certificate.epsilon


def some_events():
    g, x, pure, laplace = events.Gaussian, events.ExponentialMechanism, events.PureDP, events.Laplace
    return {
        "noise": [g(5.0)],
        "no noise worth it": [g(1e6)],
        "picks and noise": [g(5.0), events.Repeated(x(0.1), 8)],
        "few picks": [events.Repeated(x(0.5), 3)],
        "many picks": [events.Repeated(x(0.01), 200)],
        "picks of several kinds": [x(0.1), x(0.2), events.Repeated(x(0.3), 4)],
        "Laplace": [events.Repeated(laplace(30.0), 10)],
        "pure": [events.Repeated(pure(0.1), 20)],
        "pure of many kinds": [pure(0.1), pure(0.2), laplace(9.0)],
        "more than are followed": [events.Repeated(pure(0.01), 5000)],
        "leaks": [events.ApproxDP(0.1, 1e-7), g(3.0)],
        "a list": [events.StableHistogram(9.0, 1e-7), events.Repeated(x(0.1), 8)],
        "lists": [events.Repeated(events.StableHistogram(9.0, 1e-7), 3)],
        "a sample": [events.PoissonSampled(0.3, events.Repeated(pure(0.2), 3)), events.Disjoint(g(2.0), 4)],
        "groups": [events.NonSphericalGaussian((3.0, 4.0)), events.PermuteAndFlip(0.2)],
    }


@pytest.mark.parametrize("name", some_events())
def test_the_program_composes_as_tight_does(name):
    listed = some_events()[name]
    expected = TOTALS["tight"](listed, events.ADD_REMOVE, 1e-6)
    assert alone.tight(list(map(events.event_to_json, listed)), 1e-6) == pytest.approx(expected, rel=1e-11)


# Text that is no document


@pytest.mark.parametrize(
    "text",
    ["", "[]", "nothing", '{"format": "dpkit", "format": "dpkit"}', '{"a": NaN}', '{"a": 1e999}',
     "[" * 100_000, '{"a": "\\u001b"}', '{"a": "\\ud800"}', '{"a": 123456789012345678}'],
)  # fmt: skip
def test_both_refuse_what_is_no_release(text, tmp_path):
    (tmp_path / "release.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRelease):
        Release.read(tmp_path / "release.json")
    assert alone.verify(text)[0] == REFUSED


def test_the_program_needs_nothing_but_python_and_the_schema(documents, tmp_path):
    (tmp_path / "release.json").write_text(json.dumps(documents["table"]), encoding="utf-8")
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(tmp_path / "release.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (CONFIRMED, "")
    assert done.stdout.strip().endswith("confirmed")


# What is shown of an edited release


@pytest.mark.slow
def test_an_edited_release_that_can_be_read_can_be_shown(documents):
    shown = 0
    for document in documents.values():
        for number, (what, edited) in enumerate(edits(document)):
            if number % 397:
                continue
            try:
                release = Release.from_document(edited)
            except DpkitError:
                continue
            assert str(release), what
            assert release._repr_html_(), what
            assert "<html" in page(release, "release.json"), what
            shown += 1
    assert shown > 5


def test_a_witness_in_an_unknown_measure_is_shown_and_not_confirmed(documents):
    edited = put(documents["witness"], ("certificate", "witness", "measure"), {"name": "mana"})
    release = Release.from_document(edited)
    assert "its measure is not known" in " ".join(str(release).split())
    assert "unknown measure 'mana'" in verify(release).problems[0]


# Planning again


def without_event(document, i):
    """Return a lie whose arithmetic is right: an event is left out, and the total is that of the others."""
    release = Release.from_document(document)
    certificate = release.certificate
    left = certificate.events[:i] + certificate.events[i + 1 :]
    priced = [item.event for item in left]
    epsilon = TOTALS[certificate.accountant](priced, certificate.neighboring, certificate.delta)
    return attrs.evolve(release, certificate=attrs.evolve(certificate, events=left, epsilon=epsilon))


REPLANNED = tuple(name for name in SHAPES if name not in {"search", "events", "sums", "groups"})


@pytest.mark.first(8)
@pytest.mark.parametrize("name", REPLANNED)
def test_the_parts_plan_again_what_they_planned(documents, name):
    found = replan(Release.from_document(documents[name]))
    assert (found.problems, found.notes) == ((), ())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trees", "classes", "batches"])
def test_an_event_left_out_is_missed_though_the_total_was_corrected(documents, name):
    for i in range(len(documents[name]["certificate"]["events"])):
        lie = without_event(documents[name], i)
        assert verify(lie).confirmed
        assert "is not what the installed parts plan" in replan(lie).problems[0]


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("table", ("certificate", "budget", "epsilon"), 5.0),
        ("trees", ("certificate", "parts", 0, "options", "trees"), 3),
        ("trees", ("certificate", "events", 0, "sensitivity"), 0.5),
        ("batches", ("certificate", "plan"), {"batches": 3}),
        ("share", ("certificate", "plan"), {"select_share": 0.4}),
        ("refused", ("refusal_code",), "rain"),
    ],
)
def test_what_arithmetic_alone_does_not_see_is_seen_by_planning_again(documents, name, path, value):
    edited = put(documents[name], path, value)
    assert agree(edited) != REFUSED
    assert replan(Release.from_document(edited)).problems


def test_words_that_are_others_now_are_noted_and_no_problem(documents):
    edited = put(documents["witness"], ("certificate", "parts", 0, "proof"), "the moon")
    edited = put(edited, ("certificate", "assumptions"), [])
    found = replan(Release.from_document(edited))
    assert found.problems == ()
    assert found.notes[0] == "regressor mean now describes itself with other proof"
    assert found.notes[1].startswith(
        "the parts also assume something that the certificate does not state: the table is"
    )


def test_a_search_was_not_planned_by_parts_and_says_so(documents):
    with pytest.raises(InvalidRelease, match=r"not list the parts of a plan|not an installed part"):
        replan(Release.from_document(documents["search"]))


@pytest.mark.slow
def test_releases_of_old_are_planned_again_too():
    shares = {"selected-winsorized.add-remove": 0.3, "selected-winsorized.replace-one": 0.3}
    for path in OLD:
        if path.parent.name == "released" or path.stem in shares:
            release = Release.read(path)
            assert not replan(release, select_share=shares.get(path.stem)).problems, path.stem
            if path.stem in shares:
                assert "give that with --select-share" in replan(release).problems[0]


def test_every_condition_and_every_kind_of_edit_that_is_not_seen_is_on_the_page():
    for kind in UNSEEN:
        assert f"**{kind}**" in PAGE
