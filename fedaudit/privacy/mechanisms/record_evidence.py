"""Whether ledger entries about records are consistent with a spec's public numbers.

Budgets are not part of the evidence: the events of the entries' groups of records are accepted if
they have the spec's public numbers, and epsilons are computed from them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedaudit.privacy.accounting.epsilon_curves import RepeatedEvent, repeated_event_from_dict
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.accounting.privacy_events import TwoStage
from fedaudit.privacy.mechanisms.record_personalised import RecordPersonalisedMechanism
from fedaudit.privacy.records.record_plans import RecordSettings
from fedaudit.privacy.records.record_use import record_settings
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised

_DIGITS = 1e-6
"""Relative: another library or machine may round differently, by far less."""
_MAX_EVENTS = 5000
"""Repeated events of all groups. Each is composed, and evidence may come from anybody."""
_NOT_COURSES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


class TooManyEventsError(Exception):
    """The entries' events would take too long to compose, although nothing is known to be wrong."""


def record_courses(
    spec: ExperimentSpec, inputs: MechanismParameters, parameters: int, names: Sequence[str]
) -> list[tuple[RepeatedEvent, ...]] | None:
    """The repeated events of each group of records; None where they contradict the spec's public
    numbers, or no run with these can have an epsilon.

    Raises TooManyEventsError.
    """
    privacy = spec.privacy
    if not isinstance(privacy, RecordPersonalised):
        return None
    mechanism = RecordPersonalisedMechanism(spec, privacy)
    public = mechanism.public_inputs(n=parameters)
    if mechanism.cost_kind != "epsilon" or replace(inputs, event=None) != public:
        return None
    try:
        noise = mechanism.noise_multiplier()
    except InvalidInputError:
        return None
    try:
        repeated_events = _repeated_events(json.loads(inputs.event or ""), names)
    except _NOT_COURSES:
        return None
    settings = record_settings(spec)
    leaves = privacy.baseline == "filter"
    fits = all(
        some and all(_fits(settings, repeated, noise=noise, leaves=leaves) for repeated in some)
        for some in repeated_events
    )
    return repeated_events if fits else None


def _repeated_events(
    kept: Mapping[str, Any], names: Sequence[str]
) -> list[tuple[RepeatedEvent, ...]]:
    """The stored events of the groups of these names. Raises TooManyEventsError, or one of
    `_NOT_COURSES` where they are malformed."""
    if len(kept) != len(names):
        raise ValueError("the events are not those of the groups")
    if sum(len(kept[name]) for name in names) > _MAX_EVENTS:
        raise TooManyEventsError(
            f"the entries have more than {_MAX_EVENTS} events, which take too long to compose anew"
        )
    return [tuple(repeated_event_from_dict(one) for one in kept[name]) for name in names]


def _fits(
    settings: RecordSettings, repeated: RepeatedEvent, *, noise: float | str, leaves: bool
) -> bool:
    """Whether a repeated event has the spec's public numbers.

    `noise`: as the mechanism publishes it; noise that follows from the data is not among these
    numbers. `leaves`: whether records may leave before the last round.
    """
    event = repeated.event
    if not isinstance(event, TwoStage):
        return False
    if (event.client_rate, event.steps) != (settings.client_rate, settings.steps):
        return False
    lasts = repeated.max_compositions
    if lasts is not None and (not leaves or lasts >= settings.rounds):
        return False
    if isinstance(noise, str):
        return True
    return bool(np.isclose(event.noise_multiplier, noise, rtol=_DIGITS, atol=0))
