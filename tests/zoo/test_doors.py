"""What the kit sees at the doors of another library, one fault each."""

from typing import ClassVar

import numpy as np
import pytest
from dpkit_check import CheckFailed, checks_for, trial_for

from dpkit_core import Door
from zoo.elsewhere import ByDoor, Noise, handed
from zoo.twins import changed

(CHECK,) = (check for check in checks_for("regressor") if check.name == "check_doors_are_covered")


class ToldTooLittle(ByDoor):
    def release(self, data, event, generator):
        moved = changed(event.neighboring)
        return np.array([Noise(event.epsilon, moved / 2).add(float(data.records), generator)])


class ScaledByData(ByDoor):
    def release(self, data, event, generator):
        share = event.epsilon if data.records % 2 else event.epsilon / 2
        return np.array([Noise(share, 1.0).add(0.0, generator)])


class DrawsElsewhere(ByDoor):
    def release(self, data, event, generator):
        return super().release(data, event, generator) + np.random.default_rng().normal()


class PassesNoDoor(ByDoor):
    doors: ClassVar[tuple[Door, ...]] = (Door("zoo.elsewhere:Kept.laplace", handed),)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (ToldTooLittle, r"moves by 1, and was told a sensitivity of 0\.5"),
        (ScaledByData, "neighbors make other calls"),
        (DrawsElsewhere, "given the same answers from the meter, two runs release"),
        (PassesNoDoor, r"no noise is drawn at zoo\.elsewhere:Kept\.laplace"),
    ],
)
def test_each_fault_at_a_door_is_told(part, message):
    with pytest.raises(CheckFailed, match=message):
        CHECK.run(part, trial_for("regressor"))


@pytest.mark.slow
def test_doors_are_as_they_were_after_the_attack():
    add = Noise.add
    assert CHECK.run(ByDoor, trial_for("regressor")).samples > 100
    assert Noise.add is add
