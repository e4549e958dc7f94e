"""Attacks on functions of other libraries, with the library and NumPy alone: nothing of dpkit.

    uv run --no-project --with diffprivlib==0.6.6 --with 'scikit-learn<1.9' attacks.py linear_regression

Each runs a function many times on two tables that differ in one record, and counts an event that was chosen
beforehand. Were the claim true, the event's chance on one table could be at most e^epsilon times that on the
other, plus delta. Prints the counts and the epsilon that they prove, as JSON.

With ``--mended`` the function is called as it would be if the fault were mended, by a bound that covers it.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable

import numpy as np

#: With which probability one of both bounds of one attack may fail.
LEVEL = 1e-4


def farthest(share: float, runs: int, up: bool) -> float:
    """Return the lowest or highest chance under which ``share`` of ``runs`` is no rarer than half a LEVEL.

    Chernoff's bound: of a chance p, a share of at least q > p is seen with probability at most
    exp(-runs KL(q, p)), and so is one of at most q < p.
    """
    near, far = share, 1.0 if up else 0.0
    for _ in range(60):
        p = (near + far) / 2
        distance = sum(q * math.log(q / r) for q, r in ((share, p), (1 - share, 1 - p)) if q > 0 and r > 0)
        near, far = (p, far) if runs * distance < math.log(2 / LEVEL) else (near, p)
    return far


def proved(likely: int, unlikely: int, runs: int, delta: float = 0.0) -> float:
    """Return the least epsilon that the counts of both tables allow, at LEVEL."""
    low, high = farthest(likely / runs, runs, up=False), farthest(unlikely / runs, runs, up=True)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


#: Name -> the function's claim, and its releases on the table where the event is likely, and on the other.
Attack = Callable[[bool], tuple[float, float, Callable[[], bool], Callable[[], bool]]]


def linear_regression(mended: bool) -> tuple[float, float, Callable[[], bool], Callable[[], bool]]:
    """Attack diffprivlib's LinearRegression: four records at the feature's lower bound, or one at the upper.

    The event is a slope beyond 100, which no table within the bounds has.
    """
    from diffprivlib.models import LinearRegression  # noqa: PLC0415

    x, y = np.zeros((4, 1)), np.linspace(-1, 1, 4)
    other = x.copy()
    other[0] = 10.0
    # With bounds that are symmetric around 0, the larger magnitude is that of the lower bound, too.
    bounds = (-10.0, 10.0) if mended else (0.0, 10.0)

    def event(x: np.ndarray) -> bool:
        model = LinearRegression(epsilon=1.0, bounds_X=bounds, bounds_y=(-1.0, 1.0)).fit(x, y)
        return bool(abs(model.coef_[0]) > 100)

    return 1.0, 0.0, lambda: event(x), lambda: event(other)


def dp_ebm(mended: bool) -> tuple[float, float, Callable[[], bool], Callable[[], bool]]:
    """Attack InterpretML's DP-EBM: thirty equal records, or one more, with targets in [100, 101].

    The event is a noisy sum of predictions above 3 060, half a record more than that of thirty.
    """
    from interpret.privacy import DPExplainableBoostingRegressor  # noqa: PLC0415

    # From 0 on, the width of the bounds is the largest magnitude of a target.
    lowest = 0.0 if mended else 100.0

    def event(records: int) -> bool:
        model = DPExplainableBoostingRegressor(
            epsilon=1.0, delta=1e-6, max_rounds=1, learning_rate=1.0, outer_bags=1, n_jobs=1,
            validation_size=0, feature_types=["continuous"], privacy_bounds=[(0.0, 1.0)],
            privacy_target_min=lowest, privacy_target_max=101.0,
        ).fit(np.full((records, 1), 0.2), np.full(records, 100.5))  # fmt: skip
        weights, scores = np.asarray(model.bin_weights_[0]), np.asarray(model.term_scores_[0])
        return bool((weights * (scores + model.intercept_)).sum() > 3060)

    return 1.0, 1e-6, lambda: event(31), lambda: event(30)


def theil_sen(mended: bool) -> tuple[float, float, Callable[[], bool], Callable[[], bool]]:
    """Attack OpenDP's LinearRegression: eight records, or one more in front of them.

    The last pair of the eight predicts far below both candidates, and the record in front far above. The
    event is that both medians are the lower candidate.
    """
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    # A map of twice the distance would ask for twice the scale.
    model = dp.sklearn.linear_model.LinearRegression(
        dp.max_divergence(), x_bounds=[(0.0, 1.0)], y_bounds=(0.0, 1.0), scale=2.0 if mended else 1.0,
        candidates_count=2,
    )  # fmt: skip
    eight = np.array([*((i * 1e-3, 0.5) for i in range(7)), (0.5, -1000.0)])
    nine = np.vstack([[(0.5, 1000.0)], eight])

    def event(table: np.ndarray) -> bool:
        return bool(np.abs(model.measurement(table)).max() < 1e-6)

    claim = model.measurement.map(1) * (2 if mended else 1)
    return float(claim), 0.0, lambda: event(eight), lambda: event(nine)


#: Attack -> runs on each table, and with ``--quick``.
ATTACKS: dict[Attack, tuple[int, int]] = {
    linear_regression: (300, 120),
    dp_ebm: (400, 60),
    theil_sen: (10_000, 4_000),
}


def main() -> None:
    """Make the attack that is named."""
    warnings.simplefilter("ignore")
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    reader.add_argument("attack", choices=[attack.__name__ for attack in ATTACKS])
    reader.add_argument("--quick", action="store_true")
    reader.add_argument("--mended", action="store_true")
    told = reader.parse_args()
    (attack,) = (attack for attack in ATTACKS if attack.__name__ == told.attack)
    epsilon, delta, likely, unlikely = attack(told.mended)
    runs = ATTACKS[attack][told.quick]
    one, other = (sum(event() for _ in range(runs)) for event in (likely, unlikely))
    found = {"claimed": epsilon, "delta": delta, "proved": round(proved(one, other, runs, delta), 2)}
    print(json.dumps({"attack": told.attack, **found, "counts": [one, other], "runs": runs, "level": LEVEL}))


if __name__ == "__main__":
    main()
