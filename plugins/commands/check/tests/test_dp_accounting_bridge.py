import subprocess
import sys

import pytest
from dpkit_check.dp_accounting import to_dp_accounting, to_neighboring_relation

from dpkit_core.errors import MissingDependency, UnsupportedEvent
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
)


@pytest.fixture(scope="module")
def dp():
    return pytest.importorskip("dp_accounting")


def test_noise_keeps_its_multiplier(dp):
    assert to_dp_accounting(Laplace(2.0)) == dp.LaplaceDpEvent(2.0)
    assert to_dp_accounting(Gaussian(3.0)) == dp.GaussianDpEvent(3.0)


def test_groups_of_noise_become_one_gaussian(dp):
    """1 / 5^2 = 1 / 6.25^2 + 1 / 8.33..^2, from the triangle 3, 4, 5."""
    event = to_dp_accounting(NonSphericalGaussian((5 / 0.6, 5 / 0.8)))
    assert event.noise_multiplier == pytest.approx(5.0, rel=1e-14)


def test_selections_become_concentrated_dp(dp):
    assert to_dp_accounting(ExponentialMechanism(0.5)) == dp.ZCDpEvent(0.03125)
    assert to_dp_accounting(PermuteAndFlip(0.5)) == dp.ZCDpEvent(0.125)
    assert to_dp_accounting(PureDP(0.5)) == dp.ZCDpEvent(0.125)


def test_structure_is_kept(dp):
    event = Sequence((Repeated(PoissonSampled(0.1, Gaussian(2.0)), 5), NonPrivate("a reason"), Laplace(1.0)))
    sampled = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0))
    assert to_dp_accounting(event) == dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(sampled, 5), dp.NonPrivateDpEvent(), dp.LaplaceDpEvent(1.0)]
    )


@pytest.mark.parametrize("event", [ApproxDP(1.0, 1e-6), Renyi((2.0,), (0.1,))])
def test_events_without_a_counterpart_are_named(dp, event):
    with pytest.raises(UnsupportedEvent, match=type(event).__name__):
        to_dp_accounting(Repeated(event, 2))


@pytest.mark.parametrize("neighboring", Neighboring)
def test_the_relation_keeps_its_name(dp, neighboring):
    assert to_neighboring_relation(neighboring).name == neighboring.name


@pytest.mark.parametrize(
    "event",
    [
        Repeated(ExponentialMechanism(0.4), 20),
        Repeated(PureDP(0.1), 30),
        Sequence((Gaussian(3.0), Laplace(5.0), PermuteAndFlip(0.2))),
        Repeated(PoissonSampled(0.05, Gaussian(1.5)), 100),
    ],
)
def test_a_converted_event_costs_google_at_least_what_it_costs_here(dp, event):
    """On whole orders, where both libraries are exact for Gaussians."""
    rdp = pytest.importorskip("dpkit_accountant_rdp")
    from dp_accounting.rdp import RdpAccountant

    ours = rdp.RdpAccountant(orders=range(2, 200)).compose(event).epsilon(1e-6)
    relation = to_neighboring_relation(event.neighboring)
    theirs = RdpAccountant(orders=range(2, 200), neighboring_relation=relation)
    theirs.compose(to_dp_accounting(event))
    assert ours <= theirs.get_epsilon(1e-6) * (1 + 1e-8) + 1e-12


def test_the_relation_reaches_google_accountant(dp):
    """Their RDP accountant refuses sampling under replace-one, as ours does."""
    from dp_accounting.rdp import RdpAccountant

    event = PoissonSampled(0.05, Gaussian(1.5, Neighboring.REPLACE_ONE))
    relation = to_neighboring_relation(event.neighboring)
    accountant = RdpAccountant(neighboring_relation=relation)
    assert not accountant.supports(to_dp_accounting(event))


def test_a_missing_library_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingDependency, match=r"pip install 'CLONE\[accounting\]'"):
        to_dp_accounting(Laplace(1.0))


@pytest.mark.slow
def test_importing_the_bridge_does_not_import_the_library():
    program = "import sys, dpkit_check.dp_accounting; print('dp_accounting' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
