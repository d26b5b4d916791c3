"""An oracle without quadrature for probabilities of several noisy comparisons that share one Laplace variable."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import pytest


def shared_noise_probability(rho_scale: Any, nu_scale: Any, comparisons: list[tuple[Any, ...]]) -> float:
    """P(every comparison holds) for rho ~ Laplace(rho_scale) and one nu ~ Laplace(nu_scale) a comparison.

    A comparison is ("below", q): q + nu < rho, ("above", q): q + nu >= rho, or ("within", q, a, b): q + nu >= rho
    and a < q + nu <= b. Between the kinks the density of rho times the conditional probabilities is a sum of
    exponentials, which is multiplied out and integrated term by term in 80 digits.
    """
    with mpmath.workdps(80):
        r, s = mpmath.mpf(rho_scale), mpmath.mpf(nu_scale)
        kinks = {mpmath.mpf(0)} | {mpmath.mpf(v) for c in comparisons for v in c[1:] if abs(v) != mpmath.inf}
        ends = [-mpmath.inf, *sorted(kinks), mpmath.inf]
        total = mpmath.mpf(0)
        for low, high in pairwise(ends):
            side = -1 if low >= 0 else 1
            terms = {0: 1 / (2 * r)}  # power of exp(rho/s) -> coefficient; all times exp(side rho/r)
            for comparison in comparisons:
                terms = _product(terms, _factor(comparison, low, high, s))
            for power, coefficient in terms.items():
                total += coefficient * _integral(side / r + power / s, low, high)
        return float(total)


def _factor(comparison: tuple[Any, ...], low: Any, high: Any, s: Any) -> dict[int, Any]:
    kind, q = comparison[0], mpmath.mpf(comparison[1])
    half = mpmath.mpf(1) / 2
    on_the_right = {0: mpmath.mpf(1), -1: -half * mpmath.exp(q / s)}
    below = on_the_right if low >= q else {1: half * mpmath.exp(-q / s)}
    if kind == "below":
        return below
    limit = mpmath.mpf(1)
    if kind == "within":
        a, b = (mpmath.mpf(end) for end in comparison[2:])
        if low >= b:
            return {}
        limit = _cdf((b - q) / s)
        if high <= a:
            return {0: limit - _cdf((a - q) / s)}
    return _product({0: mpmath.mpf(-1)}, below) | {0: limit - below.get(0, 0)}


def _cdf(z: Any) -> Any:
    return mpmath.exp(z) / 2 if z < 0 else 1 - mpmath.exp(-z) / 2


def _product(first: dict[int, Any], second: dict[int, Any]) -> dict[int, Any]:
    result: dict[int, Any] = {}
    for i, a in first.items():
        for j, b in second.items():
            result[i + j] = result.get(i + j, 0) + a * b
    return result


def _integral(rate: Any, low: Any, high: Any) -> Any:
    if abs(rate) < mpmath.mpf(10) ** -70:
        return high - low
    at = [mpmath.mpf(0) if mpmath.isinf(end) else mpmath.exp(rate * end) for end in (low, high)]
    return (at[1] - at[0]) / rate


@pytest.fixture(scope="session")
def exact_probability() -> Callable[..., float]:
    return shared_noise_probability
