import json
import re
from importlib.metadata import version

import attrs
import pytest

from dpkit_core import Budget, LinearModel, Release, Schema, compose, verify
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import as_document, from_document
from dpkit_core.privacy.budget import Neighboring, rounded_up
from dpkit_core.privacy.events import Laplace, NonPrivate
from dpkit_core.release.certificate import PartRecord, StageEvent


@pytest.fixture(scope="module")
def release(toys, schema, data):
    pipeline = compose(
        scorer=toys.SumScorer(),
        selector=toys.BestSelector(),
        regressor=toys.MeanRegressor(),
        accountant=toys.PureAccountant(),
    )
    return pipeline.plan(schema, Budget(1.0, 1e-6), k=2).run(data)


def changed(release, **facts):
    return attrs.evolve(release, certificate=attrs.evolve(release.certificate, **facts))


def test_a_release_survives_its_file(release, tmp_path):
    path = tmp_path / "release.json"
    release.write(path)
    assert Release.read(path) == release


def test_a_certificate_has_the_versions_of_libraries_that_parts_use():
    """Proofs of fences cite code of another distribution than the part's."""
    schema = Schema.numeric(["a", "b"], "y", {"a": (0, 1), "b": (0, 1), "y": (0, 1)})
    plan = compose(scorer="correlation", selector="peel", regressor="mean", accountant="rdp")
    scorer, selector, *_ = plan.plan(schema, Budget(1.0, 1e-6), k=1).records
    assert "dpkit-fences" in scorer.libraries
    assert dict(scorer.libraries) == {name: version(name) for name in scorer.libraries}
    assert "libraries" in as_document(scorer)
    assert "libraries" not in as_document(selector)  # nor in files of before
    for record in (scorer, selector):
        assert from_document(PartRecord, as_document(record), "part", InvalidRelease) == record


def test_the_file_holds_what_is_promised(release, tmp_path):
    path = tmp_path / "release.json"
    release.write(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["selected"] == list(release.selected)
    assert set(document["certificate"]) >= {
        "private",
        "reasons",
        "epsilon",
        "delta",
        "neighboring",
        "accountant",
        "events",
        "parts",
        "assumptions",
        "randomness",
        "arithmetic",
    }
    assert [part["role"] for part in document["certificate"]["parts"]] == [
        "scorer",
        "selector",
        "regressor",
        "accountant",
    ]


def test_predictions_need_a_model(release, data):
    prediction = release.predict(data.select([0, 1]).X)
    assert prediction == pytest.approx([release.model.intercept] * 100)
    with pytest.raises(InvalidRelease, match="no model"):
        attrs.evolve(release, model=None, refusal="too few records").predict(data.X)


def test_the_total_is_recomputed_from_the_events(release, toys):
    result = verify(release, toys.PureAccountant())
    assert result.confirmed
    assert result.epsilon == pytest.approx(release.certificate.epsilon)


def test_a_claim_below_the_total_is_refuted(release, toys):
    result = verify(changed(release, epsilon=release.certificate.epsilon / 2), toys.PureAccountant())
    assert not result.confirmed
    assert "certificate claims" in result.problems[0]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"epsilon": None}, "claims no epsilon"),
        ({"reasons": ("seeded",)}, "gives reasons why not"),
        ({"randomness": "seeded (reproducible, not private)"}, "randomness was"),
        ({"events": ()}, "no event"),
        ({"events": (StageEvent("regression", NonPrivate("exact")),)}, "not private at all"),
        ({"events": (StageEvent("regression", Laplace(1, Neighboring.REPLACE_ONE)),)}, "replace-one"),
        ({"outcome": "lost"}, "unknown outcome"),
        ({"outcome": "refused"}, "the outcome is refused"),
        ({"epsilon": 1.5}, "above the budget"),
        ({"delta": 1e-3}, "above the budget"),
        ({"schema": Schema.numeric("abcd", "y", neighboring=Neighboring.REPLACE_ONE)}, "its schema for"),
    ],
)
def test_a_certificate_that_contradicts_itself_is_refuted(release, toys, facts, message):
    result = verify(changed(release, **facts), toys.PureAccountant())
    assert not result.confirmed
    assert any(message in problem for problem in result.problems)


def test_a_seeded_release_can_be_verified_but_never_says_private(toys, schema, data):
    from dpkit_core import Randomness

    pipeline = compose(regressor=toys.MeanRegressor(), accountant=toys.PureAccountant())
    release = pipeline.plan(schema, Budget(1.0)).run(data, randomness=Randomness.from_seed(0))
    assert verify(release, toys.PureAccountant()).confirmed
    assert verify(changed(release, private=True), toys.PureAccountant()).problems


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(format="other"), "not a dpkit release"),
        (lambda d: d.update(format_version=99), "format version 99"),
        (lambda d: d.pop("model"), "model"),
        (lambda d: d["model"].update(kind=["forest"]), "forest"),
        (lambda d: d["model"].pop("coefficients"), "coefficients"),
        (lambda d: d["certificate"].pop("events"), "events"),
        (lambda d: d["certificate"]["events"][0].pop("stage"), "stage"),
        (lambda d: d["certificate"].update(surprise=1), "surprise"),
        (lambda d: d["certificate"]["budget"].update(epsilon="one"), "certificate"),
        (lambda d: d["certificate"].update(epsilon=float("nan")), "NaN is no number"),
        (lambda d: d["certificate"].update(epsilon=float("inf")), "Infinity is no number"),
        (lambda d: d["certificate"].update(epsilon="1"), "epsilon is '1'"),
        (lambda d: d["certificate"].update(delta=None), "delta is None"),
        (lambda d: d["certificate"].update(private="false"), "private is 'false'"),
        (lambda d: d["certificate"].update(accountant=5), "accountant is 5"),
        (lambda d: d.update(model="linear"), "model is 'linear'"),
        (lambda d: d["certificate"]["parts"][0].update(options=[1]), "must be a mapping"),
        (lambda d: d.update(selected="ab"), "selected is 'ab'"),
    ],
)
def test_a_damaged_file_is_named(release, tmp_path, edit, message):
    document = json.loads(json.dumps(release.to_document()))
    edit(document)
    path = tmp_path / "release.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InvalidRelease, match=message):
        Release.read(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_a_file_that_is_no_release_is_named(tmp_path, text):
    path = tmp_path / "release.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRelease, match=r"release\.json"):
        Release.read(path)


def test_a_linear_model_needs_one_finite_coefficient_for_each_feature():
    with pytest.raises(ValueError, match="2 features but 1 coefficients"):
        LinearModel(("a", "b"), (1.0,))
    with pytest.raises(ValueError, match="not finite"):
        LinearModel(("a",), (float("nan"),))


def test_the_words_say_what_the_numbers_say(release):
    words = " ".join(release.certificate.in_words())
    assert "adding or removing one record" in words
    assert f"a factor of at most e^{rounded_up(release.certificate.epsilon, 4)} (about 2.718)" in words
    assert "3 events" in words


@pytest.mark.parametrize("epsilon", [0.99996, 1.00001, 0.12341])
def test_no_printed_epsilon_is_below_the_claim(release, epsilon):
    words = " ".join(changed(release, epsilon=epsilon).certificate.in_words())
    printed = [float(number) for number in re.findall(r"(?:e\^|events: epsilon )([0-9.]+)", words)]
    assert len(printed) == 2
    assert all(epsilon <= number < epsilon + 1e-3 for number in printed)


def test_a_large_epsilon_can_be_said_in_words(release):
    words = " ".join(changed(release, epsilon=1e6).certificate.in_words())
    assert "a factor of at most e^1e+06" in words


@pytest.mark.parametrize("options", [{"surprise": 1}, {"neighboring": "replace-one"}, {"pure": -5}])
def test_options_that_the_accountant_refuses_are_named(release, options):
    record = attrs.evolve(release.certificate.parts[-1], name="rdp", options=options)
    altered = changed(release, accountant="rdp", parts=(record,))
    with pytest.raises(InvalidRelease, match="accountant rdp does not accept"):
        verify(altered)
