"""Renyi divergences of the Poisson-sampled Gaussian and of the two-stage round, for many rates.

One step at integer order alpha (Mironov, Talwar and Zhang 2019, section 3.3; equation (2) of the
rPDP-FL slides): the divergence is log A / (alpha - 1) with

    A = sum over k of C(alpha, k) (1 - q)^(alpha - k) q^k exp(k (k - 1) / (2 sigma^2)).

The coefficients without the exponentials add up to 1, so A - 1 is the same sum with the
exponentials less 1: every term is positive from k = 2 on, and a tiny divergence keeps its digits.
Everything is kept in logarithms, so a huge one does not overflow.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 16  # terms at a time: the working set stays within the L2 cache


def log_moments(
    rates: NDArray[np.float64], *, order: int, noise_multiplier: float
) -> NDArray[np.float64]:
    """log A at an integer order, 2 or more, for each rate in [0, 1]: float64 [rates].

    Divided by order - 1 it is the Renyi divergence of one step.
    """
    moments = np.zeros(len(rates))
    moments[rates == 1] = order * (order - 1) / (2 * noise_multiplier**2)
    inner = np.flatnonzero((rates > 0) & (rates < 1))
    powers = np.arange(2, order + 1)
    logs = _log_coefficients(order, noise_multiplier)
    size = max(1, _CHUNK // len(powers))
    for start in range(0, len(inner), size):
        part = inner[start : start + size]
        miss = np.log1p(-rates[part])
        terms = np.multiply.outer(np.log(rates[part]) - miss, powers)
        terms += logs
        largest = terms.max(-1)
        terms -= largest[:, None]
        np.exp(terms, out=terms)
        # log A = log(1 + exp(the logarithm of A - 1))
        moments[part] = np.logaddexp(0, largest + np.log(terms.sum(-1)) + order * miss)
    return moments


@lru_cache(maxsize=1024)
def _log_coefficients(order: int, noise_multiplier: float) -> NDArray[np.float64]:
    """log(C(order, k) (exp(k (k - 1) / (2 sigma^2)) - 1)) for k = 2 .. order."""
    from scipy.special import gammaln

    k = np.arange(2, order + 1)
    exponent = k * (k - 1) / (2 * noise_multiplier**2)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    logs: NDArray[np.float64] = choose + exponent + np.log(-np.expm1(-exponent))
    logs.flags.writeable = False
    return logs


def round_divergence(
    rates: NDArray[np.float64],
    *,
    order: int,
    noise_multiplier: float,
    steps: int,
    client_rate: float,
) -> NDArray[np.float64]:
    """The Renyi divergence of one round at an integer order, for each record rate.

    With chance `client_rate`, unobserved, the client takes `steps` steps of divergence rho each:
    log(1 - lambda + lambda exp((alpha - 1) steps rho)) / (alpha - 1), by the joint convexity of
    exp((alpha - 1) D). Against an observer of which clients take part `client_rate` is 1.
    """
    exponent = steps * log_moments(rates, order=order, noise_multiplier=noise_multiplier)
    if client_rate == 1:
        return exponent / (order - 1)
    # Exact for small exponents, and no overflow for large ones.
    small = np.log1p(client_rate * np.expm1(np.minimum(exponent, 1)))
    large = exponent + np.log1p((1 - client_rate) * np.expm1(-exponent))
    divergence: NDArray[np.float64] = np.where(exponent < 1, small, large) / (order - 1)
    return divergence
