r"""Is a mechanism still private after each change? Two monitors of P(A(x) in E) <= e^epsilon P(A(x') in E) + delta.

`ReTiDPMonitor` is the method of "Monitoring Violations of Differential Privacy over Time" (arXiv 2509.20283):
standardised violations summed over every window that ends now, against a quantile of Brownian motion. Its level is a
limit for n to infinity. `BettingMonitor` multiplies bets against the claim; its level holds for every n, every number
of steps and every mechanism that keeps the claim, without a limit theorem.
"""

from typing import Any

import numpy as np

from dprepro.audits.monitor_scores import ScoreMonitor
from dprepro.audits.monitor_state import FloatArray, IntArray, Monitor
from dprepro.audits.monitor_state import MonitorResult as MonitorResult  # what update returns
from dprepro.base.check import finite, in_interval, one_of
from dprepro.stats.brownian import stored_limit, stored_quantile
from dprepro.stats.segments import Segments
from dprepro.stats.two_rates import anchored_bet, log_e_value

# Bets of a segment, in posterior standard deviations beyond its rates (Segments.rates): one that has counts bets
# somewhat less than it believes, a new one tries several sizes.
_CAUTION = -0.3
_TRIED = ((0.0, 0.5), (1.0, 0.3), (3.0, 0.2))  # deviations, share


class ReTiDPMonitor(ScoreMonitor):
    r"""Weighted sums of standardised violations against the supremum of a Brownian motion (ReTiDP, steps 1 to 3).

    Parameters
    ----------
    epsilon, alpha, delta, horizon, floor
        As in `ScoreMonitor`. The paper has delta = 0; here the violation estimated is X/n - e^epsilon Y/n - delta.
    beta : float
        Weight of long windows, in [0, 1/2).
    threshold : "horizon", "limit" or float
        The 1 - alpha quantile of sup over u < v of (B(v) - B(u))/(v - u)^beta on the grid 0, 1/T, ..., 1 (right for
        T Gaussian steps), in continuous time (the paper's limit, larger), or a number of one's own.

    Notes
    -----
        D(t) = max over l < t of (l+1)^-beta T^(beta-1/2) sum over s = t-l .. t of p_hat_s / max(sigma_hat_s, c_n)

    P(false alarm) <= alpha holds in the limit n -> infinity, where p_hat/sigma_hat is Gaussian. At a given n it is
    not: a step with few counts of Y has a large ratio and a small sigma_hat at once.
    """

    def __init__(
        self,
        epsilon: float,
        alpha: float,
        *,
        horizon: int,
        beta: float = 0.25,
        delta: float = 0.0,
        floor: str | float = "1/n",
        threshold: str | float = "horizon",
    ) -> None:
        super().__init__(epsilon, alpha, horizon=horizon, delta=delta, floor=floor)
        self.beta = float(in_interval("beta", beta, 0, 0.5, closed="left"))
        if not isinstance(threshold, str):
            self._threshold = float(in_interval("threshold", threshold, 0, np.inf, closed="neither"))
        elif one_of("threshold", threshold, ("horizon", "limit")) == "horizon":
            self._threshold = float(stored_quantile(self.alpha, self.beta, self.length)[0])
        else:
            self._threshold = float(stored_limit(self.alpha, self.beta)[0])
        lag = np.arange(self.length, 0, -1)
        # Divisors of windows that begin with step 1, 2, ...: the last t of them serve step t.
        self._scale = (lag**self.beta * self.length ** (0.5 - self.beta))[:, None]

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "beta": self.beta}

    def _begin(self, streams: int) -> None:
        # Of the windows that begin with step 1, 2, ... and end now. Differences of one running sum would lose a small
        # score to the rounding of a huge one before it.
        self._sums = np.zeros((self.length, streams))

    def _step(self, x: IntArray, y: IntArray, n: IntArray) -> tuple[FloatArray, IntArray]:
        now = self.steps + 1
        sums = self._sums[:now]
        sums += self._scores(x, y, n)
        windows = sums / self._scale[-now:]
        # The latest of equal starts: before it, steps without a count have a score of 0.
        return windows.max(axis=0), now - windows[::-1].argmax(axis=0)

    def _state(self) -> dict[str, Any]:
        return {"sums": self._sums[: self.steps].tolist()}

    def _set_state(self, state: dict[str, Any]) -> None:
        sums = finite("sums", state["sums"])
        if sums.shape != (self.steps, self._sums.shape[1]):
            raise ValueError(f"sums must have shape {(self.steps, self._sums.shape[1])}, got {sums.shape}")
        self._sums[: self.steps] = sums


class BettingMonitor(Monitor):
    r"""Capital that bets against the claim, over many sizes of bets and starting times; alarm at 1/alpha.

    Parameters
    ----------
    epsilon, alpha, delta, horizon
        As in `Monitor`. The horizon plays no part in the level; None for an open end.

    Notes
    -----
    The statistic is the log of the capital M_t = prod_s e_s, the threshold log(1/alpha), with

        e_s = sum over segments j of w_j e(X_s, Y_s; stake_j, anchor_j)     (stats.segments, stats.two_rates).

    Weights w_j (which sum to 1), stakes and anchors are functions of the steps before s. *Assumed*: given the past,
    the n outputs on x and the n on x' of a step are independent draws of A_s(x) and A_s(x'). A_s and n themselves may
    depend on the past in any way. *Proof*: by the inequality in `log_e_value` each e(.) has a conditional mean of at
    most 1 whenever the claim holds at step s, so has their weighted mean, and M is a nonnegative supermartingale that
    starts at 1. By Ville's inequality P(M_t >= 1/alpha at some t) <= alpha: at every n, over any number of steps.

    What is assumed about how mechanisms change (rates that stay for a while and then move) makes the bets good; it
    is not needed for the level.
    """

    def __init__(
        self, epsilon: float, alpha: float, *, delta: float = 0.0, horizon: int | None = None
    ) -> None:
        super().__init__(epsilon, alpha, delta=delta, horizon=horizon)

    @property
    def threshold(self) -> float:
        return float(-np.log(self.alpha))

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("epsilon", "alpha", "delta", "horizon")}

    def _begin(self, streams: int) -> None:
        self._capital = np.zeros(streams)  # its log
        self._segments = Segments.first(streams, float(np.exp(self.epsilon)), self.delta)

    def _bets(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log weights, stakes and anchors for the next step, shape (streams, bets)."""
        segments = self._segments
        old, new = slice(segments.fresh), slice(segments.fresh, None)
        bets = [(old, _CAUTION, 1.0), *((new, size, share) for size, share in _TRIED)]
        a, b = np.concatenate([segments.rates(part, size) for part, size, _ in bets], axis=2)
        log_weight = [segments.log_weight[:, part] + np.log(share) for part, _, share in bets]
        return np.concatenate(log_weight, axis=1), *anchored_bet(a, b, self.epsilon, self.delta)

    def _step(self, x: IntArray, y: IntArray, n: IntArray) -> tuple[FloatArray, IntArray]:
        log_weight, stake, anchor = self._bets()
        pay = log_e_value(x[:, None], y[:, None], n[:, None], stake, anchor, self.epsilon, self.delta)
        self._capital = self._capital + np.logaddexp.reduce(log_weight + pay, axis=1)
        now = self.steps + 1
        self._segments.learn(now, x, y, n, hazard=1 / (2 * (now + 50)))
        return self._capital.copy(), self._segments.likeliest_start()

    def _state(self) -> dict[str, Any]:
        return {"capital": self._capital.tolist(), "segments": self._segments.to_lists()}

    def _set_state(self, state: dict[str, Any]) -> None:
        capital, segments = finite("capital", state["capital"]), Segments.from_lists(state["segments"])
        if not self._capital.shape == capital.shape == segments.log_weight.shape[:1]:
            raise ValueError(f"capital and segments must be those of {self._capital.size} streams")
        self._capital, self._segments = capital, segments
