"""What noise a strategy of Flower adds, and the terms of a ledger for it. Needs the extra
`flower`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)

from fedaudit_client.adapters import plain

_FIXED = (DifferentialPrivacyClientSideFixedClipping, DifferentialPrivacyServerSideFixedClipping)


@dataclass(frozen=True)
class AveragedNoise:
    """Noise that the server adds to a mean, of standard deviation multiplier * clip / calibrated.

    A mean of m updates moves by clip / m where one of them does, so fewer than the wrapper
    assumes have proportionally less noise.
    """

    multiplier: float
    calibrated: int
    """The number of clients that the wrapper assumes."""
    weight_key: str
    """The metric by which the mean is weighted: it has to be the same for all."""

    def event(self, count: int, *, drawn: int, population: int | None) -> dict[str, Any]:
        """What the mean of `count` updates releases; with a population, of a secret sample of
        `drawn` of them."""
        if self.multiplier == 0:
            return {"kind": "none"}
        multiplier = self.multiplier * count / self.calibrated
        if population is None:
            return {"kind": "gaussian", "noise_multiplier": multiplier}
        sample = {"clients": drawn, "population": population}
        return {"kind": "fixed-gaussian", **sample, "noise_multiplier": multiplier}


def averaged_noise(strategy: Strategy, terms: Mapping[str, Any]) -> AveragedNoise:
    """The noise of the wrapper with fixed clipping in a strategy.

    Raises ValueError where there is none whose noise is known to be that of a mean, or where the
    ledger's figures are meant to hold against the server, which adds it.
    """
    found = [one for one in chain(strategy) if isinstance(one, _FIXED)]
    if len(found) != 1:
        raise ValueError(
            "what rounds release is not known: inside the strategy there is "
            f"{'none' if not found else 'more than one'} of Flower's wrappers with fixed clipping; "
            'state `event`, such as {"kind": "gaussian", "noise_multiplier": 1.0}, or '
            '{"kind": "none"} where there is no noise'
        )
    [wrapper] = found
    if type(wrapper).aggregate_train not in [one.aggregate_train for one in _FIXED]:
        raise ValueError(
            f"{type(wrapper).__name__} changes the noise of Flower's wrapper, in a way that is not "
            "known; state `event`, such as "
            '{"kind": "gaussian-distance", "noise_multiplier": 0.01} for noise that is divided by '
            "the distance of the clients"
        )
    base = wrapper.strategy
    if type(base).aggregate_train is not FedAvg.aggregate_train:
        raise ValueError(
            f"{type(base).__name__} does not average updates as FedAvg does, so the wrapper's "
            "noise is not in proportion to what one client moves; state `event`"
        )
    if terms["observer"] != "final_model" or terms["unit"] != "client":
        raise ValueError(
            "the server adds the noise and sees updates without it, for whole clients; open a "
            "ledger with the observer final_model and the unit client, or state `event`"
        )
    return AveragedNoise(
        float(wrapper.noise_multiplier), int(wrapper.num_sampled_clients), base.weighted_by_key
    )


def terms_for(
    strategy: Strategy,
    *,
    name: str,
    population: int,
    delta: float | None = None,
    budget: float | None = None,
    by_distance: bool = False,
) -> dict[str, Any]:
    """The terms of a ledger for a strategy with one of Flower's wrappers with fixed clipping.

    `population`: how many clients there are. `budget`: the most epsilon at `delta` that one of
    them may spend. `by_distance`: the server divides its noise by the distance of the clients, so
    that there is no epsilon; rounds then state `event`. Raises ValueError where the wrapper's
    noise is not known to be that of a mean.
    """
    if by_distance:
        event = {"kind": "gaussian-distance"}
        return plain.terms_for(event, name=name, population=population, server_adds_noise=True)
    terms = plain.terms_for(
        {"kind": "gaussian"},
        name=name,
        population=population,
        server_adds_noise=True,
        delta=delta,
        budget=budget,
    )
    averaged_noise(strategy, terms)
    return terms


def chain(strategy: Strategy) -> Iterator[Any]:
    found: Any = strategy
    while found is not None:
        yield found
        found = getattr(found, "strategy", None)
