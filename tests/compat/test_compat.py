"""What earlier versions wrote is read as it was meant, and what they released by a seed is released again."""

import json
import math
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import write

from dpkit_core import Release
from dpkit_core.pipeline import choose

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("v*/commands.toml"))
CASES = {f"{folder.name}/{case.name}": (folder, case) for folder in FOLDERS for case in write.cases(folder)}
RELEASES = {
    f"{folder.name}/{kind}/{path.stem}": (folder, path)
    for folder in FOLDERS
    for kind in ("seeded", "released")
    for path in sorted((folder / kind).glob("*.json"))
}

# Sentences for people, and what changes with each version. That there is something to say is compared.
PROSE = {
    "arithmetic", "assumptions", "dpkit", "messages", "metric_data", "problems", "proof", "randomness",
    "reason", "reasons", "reference", "refusal", "source", "summary", "version",
}  # fmt: skip

# Sums, matrix products, exp and log have other last digits on another processor: with the oldest kernels of
# OpenBLAS and NumPy, numbers here differ by up to 1e-13 of themselves. Other noise differs by far more.
TOLERANCE = 1e-9


def sampled(cases):
    """Return cases as parameters; parts with options, and the other relation, are left to CI."""
    return [
        pytest.param(
            *case, id=name, marks=() if re.search(r"/[a-z]+(\.add-remove)?$", name) else pytest.mark.slow
        )
        for name, case in cases.items()
    ]


any_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
any_case = pytest.mark.parametrize(("folder", "case"), sampled(CASES))
any_release = pytest.mark.parametrize(("folder", "path"), sampled(RELEASES))


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def singles(events):
    """Return the single events of which events are made, each with its stage."""
    found = []
    for event in events:
        inner = event.get("events", [event["event"]] if "event" in event else [])
        if event["type"] in ("Repeated", "Sequence"):
            stage = {"stage": event["stage"]} if "stage" in event else {}
            found += singles([stage | one for one in inner]) * event.get("count", 1)
        else:
            found.append(event)
    return found


def differences(old, new, where=""):
    """Yield where ``new`` is not what ``old`` says; new keys may have come."""
    place = where.rpartition("/")[2]
    if type(old) is not type(new):
        alike = False
    elif place == "assumptions":  # more may be said now than then
        alike = bool(new) or not old
    elif place == "events":  # the same draws in the same order, whatever groups them
        old, new = singles(old), singles(new)
        alike = len(old) == len(new)
        for number, pair in enumerate(zip(old, new, strict=False)):
            yield from differences(*pair, f"{where}/single {number}")
    elif place in PROSE:
        alike = bool(old) == bool(new)
    elif isinstance(old, dict):
        alike = old.keys() <= new.keys()
        for key in old.keys() & new.keys():
            yield from differences(old[key], new[key], f"{where}/{key}")
    elif isinstance(old, list):
        alike = len(old) == len(new)
        for number, pair in enumerate(zip(old, new, strict=False)):
            yield from differences(*pair, f"{where}/{number}")
    elif isinstance(old, float):
        alike = math.isclose(old, new, rel_tol=TOLERANCE)
    else:
        alike = old == new
    if not alike:
        yield f"{where}: was {old!r}, is {new!r}"


def same(old, new):
    found = list(differences(old, new))
    assert not found, "\n".join(found)


# Seeded releases


@any_case
def test_a_seed_releases_what_it_released(folder, case, tmp_path):
    output = tmp_path / "release.json"
    done = case.compose(folder, "--seed", case.seed, "--output", output)
    old = read(folder / "seeded" / f"{case.name}.json")
    assert done.code == (write.DONE if old["refusal"] is None else write.REFUSED), done.errors
    same(old, read(output))
    # Features come in the order of the selector.
    model = old["model"] or {}
    for columns in model.keys() & {"coefficients", "features"}:
        assert list(read(output)["model"][columns]) == list(model[columns])


@pytest.mark.parametrize(
    ("folder", "case"),
    [pair for pair in CASES.values() if pair[1].name in write.commands(pair[0])["planned"]],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.slow
def test_a_plan_runs_as_it_ran(folder, case, tmp_path):
    output, plan = tmp_path / "release.json", folder / "plans" / f"{case.name}.toml"
    done = write.dpkit(folder, "run", plan, case.data, "--seed", case.seed, "--output", output)
    assert done.code in (write.DONE, write.REFUSED), done.errors
    same(read(folder / "seeded" / f"{case.name}.json"), read(output))


@any_folder
def test_streams_and_samplers_draw_what_they_drew(folder):
    same(read(folder / "draws.json"), write.draws(write.commands(folder)["seed"]))


@pytest.mark.exhaustive
@any_folder
def test_a_lazy_selection_among_many_is_the_same(folder):
    same(read(folder / "many.json"), write.many(write.commands(folder)["seed"]))


@any_folder
def test_every_part_and_option_has_a_seeded_release(folder):
    seen, used = set(), set()
    for _, path in RELEASES.values():
        certificate = read(path)["certificate"]
        for part in certificate["parts"]:
            seen.add((part["role"], part["name"], certificate["neighboring"]))
            used |= {(part["role"], part["name"], option) for option in part["options"]}
    for role, parts in read(folder / "options_of_parts.json").items():
        for name, options in parts.items():
            assert {(role, name, relation) for relation in write.RELATIONS} <= seen
            assert {(role, name, option) for option in options} <= used


# Releases that were kept


@any_release
def test_a_release_is_read_whole(folder, path):
    document = read(path)
    assert Release.read(path).to_document() == document


@any_release
def test_a_release_is_verified_as_it_was(folder, path):
    old = read(folder / "verified.json")[f"{path.parent.name}/{path.stem}"]
    if old["confirmed"] and not read(path)["certificate"]["private"]:
        old["exit_code"] = 5  # 0 in 0.1.0, by which what came from a seed was published
    same(old, write.verification(folder, path))


@any_release
def test_a_model_predicts_what_it_predicted(folder, path):
    old = read(folder / "predicted.json")[f"{path.parent.name}/{path.stem}"]
    same(old, write.predictions(folder, path))


@pytest.mark.parametrize("change", ["private in spite of the seed", "half of epsilon", "nothing"])
@any_folder
def test_a_false_certificate_of_then_is_found_now(folder, change, tmp_path):
    document = read(folder / "seeded" / "tukey.add-remove.json")
    match change:
        case "private in spite of the seed":
            document["certificate"] |= {"private": True, "reasons": []}
        case "half of epsilon":
            document["certificate"]["epsilon"] /= 2
    path = tmp_path / "release.json"
    path.write_text(json.dumps(document))
    assert write.verification(folder, path)["confirmed"] == (change == "nothing")


# Suites, results, recipes, schemas


@any_folder
def test_results_are_summed_up_as_they_were(folder, tmp_path):
    results = shutil.copytree(folder / "results", tmp_path / "results")
    old, new = read(folder / "summary.json"), write.summary(folder, results)
    trials = old.pop("trials")
    # Each trial is known by its key, so none is run again.
    assert new.pop("trials") == {"run": 0, "done_before": trials["run"], "skipped": 0}
    same(old, new)


@pytest.mark.slow
@any_folder
def test_a_suite_has_the_results_that_it_had(folder, tmp_path, monkeypatch):
    # A suite that names no accountant got this one; and its keys are those of what it names.
    facts = tomllib.loads((folder / "commands.toml").read_text(encoding="utf-8"))
    monkeypatch.setattr(choose, "PREFERRED", facts["accountant"])
    same(read(folder / "anew.json"), write.summary(folder, tmp_path / "results"))


@pytest.mark.slow
@any_folder
def test_a_suite_means_what_it_meant(folder):
    for name, old in read(folder / "suites.json").items():
        same(old, write.suite(folder, f"{name}.toml"))


@pytest.mark.slow
@any_folder
def test_recipes_suites_and_generators_are_still_offered(folder):
    same(read(folder / "offered.json"), write.offered(folder))


@any_folder
def test_the_start_of_a_schema_has_its_keys(folder):
    same(read(folder / "schema.json"), write.schema(folder))


# Names


@any_folder
def test_commands_have_their_options(folder):
    now = write.options_of_commands(folder)
    gone = {
        command: sorted(set(options) - set(now[command]))
        for command, options in read(folder / "options_of_commands.json").items()
    }
    assert not any(gone.values()), gone


@any_folder
def test_parts_have_their_options_and_defaults(folder):
    same(read(folder / "options_of_parts.json"), write.options_of_parts(folder))


# The comparison itself

ONCE = {"type": "Laplace", "noise_multiplier": 1.0}
TWICE = {"type": "Repeated", "event": ONCE, "count": 2}


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"selected": ["a", "b"]}, {"selected": ["b", "a"]}, False),
        ({"count": 3}, {"count": 4}, False),
        ({"count": 3}, {"count": 3.0}, False),
        ({"epsilon": 1.0}, {"epsilon": 1.0 + 1e-12}, True),
        ({"epsilon": 1.0}, {"epsilon": 1.0 + 1e-8}, False),
        ({"private": True}, {"private": 1}, False),
        ({"reasons": ["the old words"]}, {"reasons": ["others"]}, True),
        ({"reasons": ["the old words"]}, {"reasons": []}, False),
        ({"refusal": None}, {"refusal": "words"}, False),
        ({"assumptions": []}, {"assumptions": ["the table is not empty"]}, True),
        ({"assumptions": ["something"]}, {"assumptions": []}, False),
        ({"events": [TWICE]}, {"events": [{**ONCE, "shape": []}, ONCE]}, True),
        ({"events": [TWICE]}, {"events": [ONCE]}, False),
        ({"events": [ONCE]}, {"events": [{**ONCE, "noise_multiplier": 2.0}]}, False),
    ],
)
def test_what_counts_as_the_same(old, new, equal):
    assert (not list(differences(old, new))) == equal
