r"""A monitor without ReTiDP's choice of windows: a test a step, and a test of the whole history.

"Monitoring Violations of Differential Privacy over Time" (arXiv 2509.20283) argues against both. A one-time audit
repeated at every step forgets what it saw before; the mean over all steps dilutes a violation with the steps before
it.

Both are valid in ReTiDP's sense and no further: in the limit of many outputs a step the scores p_hat/sigma_hat are
independent of each other and, under the claim, each is a standard normal variable plus a number of at most 0.
"""

from typing import Any

import numpy as np
from scipy.special import ndtri

from dprepro.audits.monitor_scores import ScoreMonitor
from dprepro.audits.monitor_state import FloatArray, IntArray
from dprepro.base.check import finite


class StepwiseMonitor(ScoreMonitor):
    r"""A one-sided z-test at every step, each at alpha/T.

    Parameters
    ----------
    epsilon, alpha, delta, horizon, floor
        As in `ScoreMonitor`.

    Notes
    -----
    The statistic is p_hat_t / max(sigma_hat_t, c_n), the threshold the 1 - alpha/T quantile of the normal
    distribution. By Bonferroni's inequality P(false alarm) <= alpha in the limit n -> infinity. Little of alpha is
    given away: independent tests at alpha/T alarm with probability 1 - (1 - alpha/T)^T, .0488 at least for .05.
    """

    def __init__(
        self,
        epsilon: float,
        alpha: float,
        *,
        horizon: int,
        delta: float = 0.0,
        floor: str | float = "1/n",
    ) -> None:
        super().__init__(epsilon, alpha, horizon=horizon, delta=delta, floor=floor)
        self._threshold = float(-ndtri(self.alpha / self.length))

    def _begin(self, streams: int) -> None:
        pass  # nothing is remembered but the alarm

    def _step(self, x: IntArray, y: IntArray, n: IntArray) -> tuple[FloatArray, IntArray]:
        scores = self._scores(x, y, n)
        return scores, np.full(len(scores), self.steps + 1)

    def _state(self) -> dict[str, Any]:
        return {}

    def _set_state(self, state: dict[str, Any]) -> None:
        if state != {}:
            raise ValueError(f"state must be empty, got {state!r:.80}")


class HistoryMeanMonitor(ScoreMonitor):
    r"""The mean score of all steps so far.

    Parameters
    ----------
    epsilon, alpha, delta, horizon, floor
        As in `ScoreMonitor`.

    Notes
    -----
    With S_t = sum over s <= t of p_hat_s / max(sigma_hat_s, c_n) the statistic is S_t/sqrt(T), ReTiDP's for beta = 0
    with the longest window alone, and the threshold c is the 1 - alpha/2 quantile of the normal distribution: the
    z-value S_t/sqrt(t) of the history's mean must reach c sqrt(T/t). In the limit n -> infinity S is at most a sum of
    independent standard normal variables, and by Lévy's inequality P(S_t >= c sqrt(T) at some t <= T) is at most
    2 P(S_T >= c sqrt(T)) = alpha. That spends alpha nearly whole (.044 of .05 at T = 100); one constant for the
    z-values by Bonferroni over the steps would spend .007.
    """

    def __init__(
        self,
        epsilon: float,
        alpha: float,
        *,
        horizon: int,
        delta: float = 0.0,
        floor: str | float = "1/n",
    ) -> None:
        super().__init__(epsilon, alpha, horizon=horizon, delta=delta, floor=floor)
        self._threshold = float(-ndtri(self.alpha / 2))

    def _begin(self, streams: int) -> None:
        self._sum = np.zeros(streams)

    def _step(self, x: IntArray, y: IntArray, n: IntArray) -> tuple[FloatArray, IntArray]:
        self._sum = self._sum + self._scores(x, y, n)
        return self._sum / np.sqrt(self.length), np.ones(len(x), dtype=np.int64)

    def _state(self) -> dict[str, Any]:
        return {"sum": self._sum.tolist()}

    def _set_state(self, state: dict[str, Any]) -> None:
        saved = finite("sum", state["sum"])
        if saved.shape != self._sum.shape:
            raise ValueError(f"sum must have shape {self._sum.shape}, got {saved.shape}")
        self._sum = saved
