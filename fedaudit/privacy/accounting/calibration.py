"""How much noise a budget requires, from public numbers alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from fedaudit.privacy.accounting.accountants.two_stage import TwoStageRun
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.spec.errors import FieldError, InvalidInputError

_RELATIVE_TOLERANCE = 1e-9
_MIN_NOISE = 1e-3
_MAX_NOISE = 1e9


# Cells of a sweep, and clients of one size, ask for the same noise: it is found once, by the exact
# numbers that determine it.
@lru_cache(maxsize=4096)
def calibrated_run(
    epsilon: float,
    *,
    record_rate: float = 1.0,
    client_rate: float,
    steps: int,
    rounds: int,
    delta: float,
    observer: Observer = "final_model",
    pointer: str = "/privacy/epsilon_max",
) -> TwoStageRun:
    """The run with the least noise in which a record of `record_rate` spends at most `epsilon`.

    With rate 1 every record of the run spends at most `epsilon`, and the noise reveals nothing
    about any record's budget. The authors stop within 0.01 of the budget on either side; here the
    budget is met to nine digits and never exceeded. Raises InvalidInputError at `pointer` where no
    amount of noise is enough (the budget lies below the floor of the orders).
    """
    loudest = TwoStageRun(
        client_rate=client_rate,
        noise_multiplier=_MAX_NOISE,
        steps=steps,
        rounds=rounds,
        delta=delta,
        observer=observer,
    )

    def spends(noise_multiplier: float) -> float:
        run = replace(loudest, noise_multiplier=noise_multiplier)
        return float(run.epsilons(record_rate))

    if not spends(_MAX_NOISE) <= epsilon:
        raise InvalidInputError(
            [
                FieldError(
                    pointer,
                    f"no noise keeps a record within epsilon = {epsilon:g} at delta = {delta:g}: "
                    f"the accountant cannot show less than {loudest.floor:.4g}; raise the budget "
                    "or delta",
                    of_spec=True,
                )
            ]
        )
    return replace(loudest, noise_multiplier=_least_noise(spends, epsilon))


def _least_noise(spends: Callable[[float], float], epsilon: float) -> float:
    """Bisection on the logarithm; returns the upper end, which keeps the budget."""
    low, high = _MIN_NOISE, _MAX_NOISE
    if spends(low) <= epsilon:
        return low
    while high > low * (1 + _RELATIVE_TOLERANCE):
        middle = (low * high) ** 0.5
        if not low < middle < high:
            break
        if spends(middle) <= epsilon:
            high = middle
        else:
            low = middle
    return high
