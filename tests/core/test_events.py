import json
import math
from typing import get_args

import attrs
import pytest
from dpkit_check.products import law_of

from dpkit_core.errors import InvalidRelease
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import (
    UNPRICED,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
    StableHistogram,
    event_from_json,
    event_to_json,
    events_in_words,
    examples,
    expand,
    is_exact,
    unstated,
    walk,
)
from dpkit_core.privacy.renyi import curve_of, unbounded

RO = Neighboring.REPLACE_ONE
EVERY_EVENT = [
    Laplace(2.0),
    Gaussian(3.5, RO),
    NonSphericalGaussian((2.0, 4.0)),
    ExponentialMechanism(0.1),
    PermuteAndFlip(0.2, RO),
    PureDP(0.3),
    ApproxDP(1.0, 1e-6),
    Renyi((2.0, math.inf), (0.1, 0.5)),
    StableHistogram(5.0, 1e-7, RO),
    PoissonSampled(0.1, Gaussian(2.0)),
    Repeated(PoissonSampled(0.1, Gaussian(2.0)), 50),
    Sequence((Repeated(ExponentialMechanism(0.5), 3), Laplace(1.0))),
    Filtered(PoissonSampled(0.1, Gaussian(2.0)), rounds=6, charged=4),
    Disjoint(Laplace(2.0), 3),
    NonPrivate("the published calibration is wrong"),
]

EXAMPLES = {type(event): event for event in examples(Neighboring.ADD_OR_REMOVE_ONE)}
each_event = pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)


def test_every_event_has_an_example():
    assert EXAMPLES.keys() == set(get_args(Event)), "add an example to `examples` in events.py"


@each_event
def test_every_event_has_a_curve_with_and_without_its_pair(kind):
    event = EXAMPLES[kind]
    if kind is NonPrivate:
        assert unbounded(event)
        return
    assert unbounded(event) is None, f"{kind.__name__} needs a row in _CURVES of dpkit_core/privacy/renyi.py"
    curve, pair = curve_of(event), event.pair()
    assert (curve.divergences[:-1] <= curve.divergences[1:] * (1 + 2.0**-30)).all()
    assert (curve.divergences > 0).all()
    if pair is not None:
        epsilon, delta = pair
        assert (curve.divergences <= epsilon * (1 + 2.0**-30)).all()
        assert (curve.pure, curve.leaked) == pytest.approx((epsilon, delta), rel=1e-12)


@each_event
def test_every_event_has_a_law_that_accountants_are_attacked_with(kind):
    event = EXAMPLES[kind]
    if kind in {NonPrivate, Renyi}:  # one has no law, the other one where its divergences are those of noise
        return
    law = law_of(event)
    delta, error = law.delta(0.05)
    spent = curve_of(event)
    assert 0 <= delta - error <= spent.delta(0.05)
    assert delta > 0, "a mechanism that hides everything attacks no accountant"


@each_event
def test_every_event_is_told_in_words(kind):
    event = EXAMPLES[kind]
    (line,) = events_in_words([event])
    assert line == event.words()
    (twice,) = events_in_words([event, event])
    assert twice == event.words(2) != line


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            Repeated(ExponentialMechanism(0.0216), 5),
            "5 choices by the exponential mechanism, epsilon 0.0216 each",
        ),
        (Laplace(20.0), "1 release with Laplace noise, scale 20 x sensitivity"),
        (
            Disjoint(Laplace(2.0), 4),
            "4 releases with Laplace noise, scale 2 x sensitivity each, on 4 disjoint sets of records",
        ),
        (Disjoint(Laplace(2.0), 1), "1 release with Laplace noise, scale 2 x sensitivity"),
        (
            Repeated(Sequence((PureDP(1.0), Gaussian(2.0))), 3),
            "3 times (1 release with epsilon 1; 1 release with Gaussian noise, deviation 2 x sensitivity)",
        ),
    ],
)
def test_words_count_what_is_inside(event, words):
    assert event.words() == words


@each_event
def test_a_fact_on_which_no_cost_depends_is_missed_where_it_is_not_stated(kind):
    event = EXAMPLES[kind]
    inside = {name for inner in walk(event) for name in attrs.fields_dict(type(inner)) if name in UNPRICED}
    missing = unstated(event)
    assert (missing is None) is not bool(inside)
    if not event.inner and inside:
        assert all(UNPRICED[name] in missing for name in inside)


@each_event
def test_whatever_is_inside_an_event_is_walked_and_drawn(kind):
    event = EXAMPLES[kind]
    fields = attrs.asdict(event, recurse=False).values()
    held = {e for f in fields for e in (f if isinstance(f, tuple) else (f,)) if type(e) in EXAMPLES}
    assert {inner for inner, _ in event.inner} == held
    assert all(is_exact(inner) for inner in walk(event))
    assert len(list(expand((event,)))) == sum(
        count * len(list(expand((inner,)))) for inner, count in event.inner if kind is not PoissonSampled
    ) + (not event.inner or kind is PoissonSampled)


@pytest.mark.parametrize("event", [*EVERY_EVENT, *EXAMPLES.values()], ids=lambda e: type(e).__name__)
def test_an_event_survives_json(event):
    text = json.dumps(event_to_json(event), allow_nan=False)
    assert event_from_json(json.loads(text)) == event


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"type": "Cauchy", "scale": 1.0}, "Cauchy"),
        ({"noise_multiplier": 1.0}, "type is missing"),
        ({"type": "Laplace"}, "Laplace"),
        ({"type": "Laplace", "noise_multiplier": 2.0}, "neighboring is missing"),
        ({"type": "Laplace", "noise_multiplier": -1.0, "neighboring": "add-remove"}, "above 0"),
        ({"type": "Laplace", "noise_multiplier": 1.0, "neighboring": "add-remove", "scale": 2.0}, "scale"),
        ({"type": "Laplace", "noise_multiplier": 1.0, "neighboring": "both"}, "both"),
        ({"type": "Repeated", "event": event_to_json(PureDP(1.0)), "count": 0}, "count"),
    ],
)
def test_a_bad_document_is_named(document, word):
    with pytest.raises(InvalidRelease, match=word):
        event_from_json(document)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Gaussian(0.0),
        lambda: Gaussian(math.inf),
        lambda: Gaussian(math.nan),
        lambda: ApproxDP(1.0, 1.0),
        lambda: PoissonSampled(0.0, Gaussian(1.0)),
        lambda: PoissonSampled(1.5, Gaussian(1.0)),
        lambda: Renyi((1.0,), (0.1,)),
        lambda: Renyi((2.0,), ()),
        lambda: NonSphericalGaussian(()),
        lambda: Sequence(()),
        lambda: Sequence((Laplace(1.0), Laplace(1.0, RO))),
    ],
)
def test_an_event_that_means_nothing_cannot_be_built(build):
    with pytest.raises(ValueError, match=r".+"):
        build()


def test_non_spherical_noise_equals_the_spherical_noise_of_the_same_mahalanobis_shift():
    # Shift s in a coordinate of deviation m*s: squared shift over variance adds up, 1/9 + 1/16 = 25/144.
    assert NonSphericalGaussian((3.0, 4.0)).noise_multiplier == pytest.approx(12 / 5)


def test_nested_events_report_the_relation_inside():
    assert Repeated(PoissonSampled(0.5, Gaussian(1.0, RO)), 2).neighboring is RO
    assert Sequence((PureDP(1.0, RO),)).neighboring is RO


def test_walk_visits_every_event():
    inner = ExponentialMechanism(0.5)
    event = Sequence((Repeated(inner, 3), PoissonSampled(0.1, Gaussian(1.0))))
    assert list(walk(event)) == [
        event,
        Repeated(inner, 3),
        inner,
        PoissonSampled(0.1, Gaussian(1.0)),
        Gaussian(1.0),
    ]
