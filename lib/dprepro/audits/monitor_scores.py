"""What monitors of standardised violations share: p_hat/sigma_hat of a step, its floor, a threshold of their own.

A score is the estimate of P(A(x) in E) - e^epsilon P(A(x') in E) - delta over its standard error, from one step
("Monitoring Violations of Differential Privacy over Time", arXiv 2509.20283, step 1). Under the claim it is at most a
standard normal variable in the limit of many outputs a step, not at a given n.
"""

from typing import Any

import numpy as np

from dprepro.audits.monitor_state import FloatArray, IntArray, Monitor
from dprepro.base.check import in_interval, one_of
from dprepro.stats.two_rates import violation


class ScoreMonitor(Monitor):
    """A claim watched through the scores of the steps, over a planned number of steps.

    Parameters
    ----------
    epsilon, alpha, delta
        As in `Monitor`.
    horizon : int
        T, the number of steps planned; their thresholds need it.
    floor : "1/n" or float
        c_n, the least standard error a step is given, 1e-100 or more; the paper asks for c_n -> 0. Without it a step
        whose counts are all 0 divides by 0. "1/n" is the standard error of one single count on x.

    Attributes
    ----------
    length : int
        The horizon.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """

    _threshold: float

    def __init__(
        self,
        epsilon: float,
        alpha: float,
        *,
        horizon: int,
        delta: float,
        floor: str | float,
    ) -> None:
        if horizon is None:
            raise ValueError("horizon must be a whole number of at least 1, got None")
        super().__init__(epsilon, alpha, delta=delta, horizon=horizon)
        self.floor = (
            one_of("floor", floor, ("1/n",))
            if isinstance(floor, str)
            else float(in_interval("floor", floor, 1e-100, np.inf, closed="left"))
        )
        self.length = int(horizon)

    @property
    def threshold(self) -> float:
        return self._threshold

    def _parameters(self) -> dict[str, Any]:
        names = ("epsilon", "alpha", "delta", "horizon", "floor", "threshold")
        return {name: getattr(self, name) for name in names}

    def _scores(self, x: IntArray, y: IntArray, n: IntArray) -> FloatArray:
        p_hat, sigma_hat = violation(x, y, n, self.epsilon, self.delta)
        return p_hat / np.maximum(sigma_hat, 1 / n if isinstance(self.floor, str) else self.floor)
