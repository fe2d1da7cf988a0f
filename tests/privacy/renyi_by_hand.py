"""Renyi divergences and the older conversion, for tests to compare with."""

import math

import numpy as np

from fedaudit.privacy.accounting.two_stage import log_moments


def own_divergence(sigma, q, order):
    """One step of the Poisson-sampled Gaussian, by this project's own code."""
    return log_moments(np.array([q]), order=order, noise_multiplier=sigma)[0] / (order - 1)


def older_epsilon(divergences, orders, delta):
    """Mironov 2017, proposition 3: what the slides print and nobody should use."""
    return min(
        rho + math.log(1 / delta) / (order - 1)
        for rho, order in zip(divergences, orders, strict=True)
    )
