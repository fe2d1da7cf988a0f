"""Whether ledger entries about records are consistent with a spec's public numbers.

Budgets are not part of the evidence: the events of the entries' groups of records are accepted if
they have the spec's public numbers, and epsilons are computed from them.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedaudit.privacy.accounting.epsilon_curves import RepeatedEvent, repeated_event_from_dict
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.accounting.privacy_events import TwoStage
from fedaudit.privacy.mechanisms.record_personalised import RecordPersonalisedMechanism
from fedaudit.privacy.records.record_plans import run_within
from fedaudit.privacy.records.record_use import record_settings
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised

_DIGITS = 1e-6
"""Relative: another library or machine may round differently, by far less."""
_NOT_COURSES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def record_courses(
    spec: ExperimentSpec, inputs: MechanismParameters, parameters: int, names: Sequence[str]
) -> list[tuple[RepeatedEvent, ...]] | None:
    """The repeated events of each group of records; None where they contradict the spec's public
    numbers."""
    privacy = spec.privacy
    if not isinstance(privacy, RecordPersonalised):
        return None
    public = RecordPersonalisedMechanism(spec, privacy).public_inputs(n=parameters)
    if replace(inputs, event=None) != public:
        return None
    try:
        kept = json.loads(inputs.event or "")
        repeated_events = [
            tuple(repeated_event_from_dict(one) for one in kept[name]) for name in names
        ]
    except _NOT_COURSES:
        return None
    if len(kept) != len(names) or not all(
        some and all(_fits(spec, privacy, repeated) for repeated in some)
        for some in repeated_events
    ):
        return None
    return repeated_events


def _fits(spec: ExperimentSpec, privacy: RecordPersonalised, repeated: RepeatedEvent) -> bool:
    """Whether a repeated event has the spec's public numbers, which exclude a baseline's noise."""
    settings, event = record_settings(spec), repeated.event
    if not isinstance(event, TwoStage):
        return False
    if (event.client_rate, event.steps) != (settings.client_rate, settings.steps):
        return False
    lasts = repeated.max_compositions
    if lasts is not None and (privacy.baseline != "filter" or lasts >= settings.rounds):
        return False
    if privacy.baseline not in (None, "filter"):
        return True
    noise = run_within(settings.epsilon_max, settings).noise_multiplier
    return bool(np.isclose(event.noise_multiplier, noise, rtol=_DIGITS, atol=0))
