import json
import math

import pytest

from dpkit_core.errors import InvalidRelease
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import (
    ApproxDP,
    ExponentialMechanism,
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
    event_from_json,
    event_to_json,
    walk,
)

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
    PoissonSampled(0.1, Gaussian(2.0)),
    Repeated(PoissonSampled(0.1, Gaussian(2.0)), 50),
    Sequence((Repeated(ExponentialMechanism(0.5), 3), Laplace(1.0))),
    NonPrivate("the published calibration is wrong"),
]


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda e: type(e).__name__)
def test_an_event_survives_json(event):
    text = json.dumps(event_to_json(event), allow_nan=False)
    assert event_from_json(json.loads(text)) == event


def test_a_file_written_before_relations_were_stored_means_add_remove():
    assert event_from_json({"type": "Laplace", "noise_multiplier": 2.0}) == Laplace(2.0)


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"type": "Cauchy", "scale": 1.0}, "Cauchy"),
        ({"noise_multiplier": 1.0}, "type is missing"),
        ({"type": "Laplace"}, "Laplace"),
        ({"type": "Laplace", "noise_multiplier": -1.0}, "above 0"),
        ({"type": "Laplace", "noise_multiplier": 1.0, "scale": 2.0}, "scale"),
        ({"type": "Laplace", "noise_multiplier": 1.0, "neighboring": "both"}, "both"),
        ({"type": "Repeated", "event": {"type": "PureDP", "epsilon": 1.0}, "count": 0}, "count"),
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
