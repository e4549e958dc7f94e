import ast
import json
import math
from pathlib import Path

import pytest

from dpkit_core.errors import InvalidRelease
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import (
    EVENT_TYPES,
    ApproxDP,
    Disjoint,
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
    Filtered(PoissonSampled(0.1, Gaussian(2.0)), rounds=6, charged=4),
    Disjoint(Laplace(2.0), 3),
    NonPrivate("the published calibration is wrong"),
]

ROOT = Path(__file__).parents[2]
GROUPS = {"PoissonSampled", "Repeated", "Sequence", "Filtered", "Disjoint"}

#: Each function that has to know every event, what it is to say of it, and which events need nothing said.
PLACES = {
    "dpkit_core/privacy/renyi.py unbounded": ("whether it has a Renyi curve", set()),
    "dpkit_core/privacy/renyi.py _curve_of": ("its Renyi curve, or that it has none", set()),
    "dpkit_core/privacy/composition.py unpaired": ("whether it has an (epsilon, delta) of its own", set()),
    "dpkit_core/privacy/composition.py pair_of": ("that (epsilon, delta), if it has one", set()),
    "dpkit_core/privacy/composition.py elements": ("of what simple events it is made", set()),
    "dpkit_core/privacy/gaussian_filter.py _unshifted": ("whether it may be added up as a shift", set()),
    "dpkit_core/privacy/tight.py undominated": ("whether it has a dominating pair", set()),
    "dpkit_core/privacy/words.py in_words": ("that it groups others, in words", set(EVENT_TYPES) - GROUPS),
    "dpkit_core/privacy/words.py _noun_and_cost": ("what it is in words", GROUPS),
    "dpkit_core/privacy/dp_accounting.py to_dp_accounting": ("what Google's library has for it", set()),
    "dpkit_core/privacy/events.py unstated": (
        "what a plan must say of it, such as the place of a proof",
        GROUPS | {"NonPrivate"},
    ),
    "plugins/commands/check/dpkit_check/products.py law_of": ("a mechanism that it describes", set()),
    "plugins/commands/check/dpkit_check/attacks/totals.py events": (
        "an example, which accountants are asked about",
        {"Filtered", "NonPrivate"},
    ),
    "plugins/commands/check/dpkit_check/attacks/totals.py _exact_laws": (
        "the exact delta of a mechanism that it describes, which accountants are attacked with",
        {"Repeated", "Sequence", "NonPrivate"},
    ),
    "dpkit_core/cli/_describe.py _examples": (
        "an example, for `dpkit show` of an accountant",
        GROUPS | {"NonPrivate"},
    ),
}


def named(place: str) -> set[str]:
    """Return the names in a function, patterns of ``match`` included."""
    path, function = place.split()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    (found,) = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function)
    return {node.id for node in ast.walk(found) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("place", PLACES)
def test_every_event_is_known_where_it_has_to_be(place):
    what, needless = PLACES[place]
    path, function = place.split()
    missing = set(EVENT_TYPES) - needless - named(place)
    assert not missing, f"{path}: say in `{function}` of {' and '.join(sorted(missing))}: {what}"


def test_every_event_is_written_and_read_back_below():
    missing = set(EVENT_TYPES) - {type(event).__name__ for event in EVERY_EVENT}
    assert not missing, f"tests/core/test_events.py: put an example of {missing} into EVERY_EVENT"


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
