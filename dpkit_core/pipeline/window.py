"""What a part holds of its meter: calls, and nothing that leads behind them by an attribute.

A ``Window`` has the calls of ``dpkit_core.Meter``. ``Opened`` is the sampler inside the ``with`` block of a
custom mechanism: it has the methods of ``Sampler``, counts what they give, and is closed when the block ends.
``Lending`` is what another library gets its randomness by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs
import numpy as np

from dpkit_core.errors import PlanViolation
from dpkit_core.noise.randomness import Uncopyable
from dpkit_core.noise.sampler import Sampler
from dpkit_core.protocols import Meter

CALLS = ("laplace", "gaussian", "select", "kept_sums", "custom", "foreign", "screen")

# For each method of ``Sampler``, the scale of its noise; None where the law is a standard one.
_SCALES: dict[str, Callable[..., float] | None] = {
    "bernoulli_exp": None,
    "discrete_laplace": lambda scale, size=(): float(scale),
    "discrete_gaussian": lambda sigma, size=(): float(sigma),
    "laplace_on_grid": lambda value, *, sensitivity, noise_multiplier: sensitivity * noise_multiplier,
    "gaussian_on_grid": lambda value, *, sensitivity, noise_multiplier: sensitivity * noise_multiplier,
    "exponential": None,
    "gumbel": None,
    "integers": None,
    "permutation": None,
    "subset": None,
    "bits": None,
}


class Window(Uncopyable):
    """What a part sees of its meter, see ``dpkit_core.Meter``."""

    __slots__ = ("_coins", "_inflation", *CALLS)

    def __init__(self, meter: Meter) -> None:
        def passed_on(name: str) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                return getattr(meter, name)(*arguments, **options)

            return call

        for name in CALLS:
            setattr(self, name, passed_on(name))
        self._coins: Callable[[], np.random.Generator] = lambda: meter.coins
        self._inflation: Callable[[], float] = lambda: meter.inflation

    @property
    def coins(self) -> np.random.Generator:
        """Public randomness, see ``dpkit_core.Meter``."""
        return self._coins()

    @property
    def inflation(self) -> float:
        """How much larger Gaussian noise is than asked for, see ``dpkit_core.Meter``."""
        return self._inflation()


@attrs.frozen
class Call:
    """One way in which the sampler of a custom mechanism was used.

    Attributes
    ----------
    method
        Of ``Sampler``.
    scale
        Of the noise, as asked for; None where the method has a standard law.
    """

    method: str
    scale: float | None


class Opened(Uncopyable):
    """The sampler of one custom mechanism, see ``dpkit_core.noise.sampler.Sampler``: counts what it gives."""

    __slots__ = ("close", *_SCALES)

    def __init__(self, sampler: Sampler, require_usable: Callable[[], None]) -> None:
        calls: dict[Call, int] = {}
        is_open = [True]

        def counted(method: str, scale_of: Callable[..., float] | None) -> Callable[..., Any]:
            def ask(*arguments: Any, **options: Any) -> Any:
                require_usable()
                if not is_open[0]:
                    raise PlanViolation("the sampler of a custom mechanism was used after its `with` block")
                # Before the draw: a scale that cannot be computed must leave no draw unrecorded.
                call = Call(method, None if scale_of is None else scale_of(*arguments, **options))
                given = getattr(sampler, method)(*arguments, **options)
                calls[call] = calls.get(call, 0) + int(np.size(given))
                return given

            return ask

        def close() -> tuple[tuple[Call, int], ...]:
            is_open[0] = False
            return tuple(calls.items())

        for method, scale_of in _SCALES.items():
            setattr(self, method, counted(method, scale_of))
        self.close: Callable[[], tuple[tuple[Call, int], ...]] = close


class Lending(Uncopyable):
    """Randomness for another library, see ``dpkit_core.Lent``."""

    __slots__ = ("generator", "random_state")

    def __init__(self, lend: Callable[[], np.random.Generator]) -> None:
        self.generator: Callable[[], np.random.Generator] = lend
        # Older libraries take this one alone.
        self.random_state = lambda: np.random.RandomState(lend().bit_generator)


Given_co = TypeVar("Given_co", covariant=True)


class Block(Uncopyable, Generic[Given_co]):
    """A ``with`` block, entered once; holds nothing that leads to the meter."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], Given_co], end: Callable[[bool], None]) -> None:
        self._begin = begin
        self._end = end

    def __enter__(self) -> Given_co:
        return self._begin()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._end(kind is not None)
