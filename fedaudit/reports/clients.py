"""What each client paid and how good the model is for it: confidential, beside the report and never
in it.

Everyone who may read reports reads a signed report. Figures of single named clients are for readers
of the ledger, which names clients too, so they are kept apart from the report.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

import numpy as np

from fedaudit.arrays import Bools, Floats
from fedaudit.fairness.disclosure import TRAINED, Disclosure
from fedaudit.fairness.gaps import NO_ACCURACY, ClientScores
from fedaudit.fairness.intervals import exact_limits
from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.reports.sections.material import ReportMaterial
from fedaudit.spec.sources import RowSplit

NOT_TRAINED = "did not train"
_HELD_OUT = "none of its rows is scored"
_SOME_ROWS = (
    "not all rows of the client are scored, and beside a report that scores them all its figure "
    "would be that of the few others; leave fairness.exclude and federation.scoring out"
)
_SECRET = "who takes part is secret"
COLUMNS = ("participations", "refused", "spent", "remaining", "accuracy", "accuracy_interval")
_LEVEL = 0.95
_BETWEEN = "; "


def client_columns(
    material: ReportMaterial,
    scores: ClientScores,
    decide: Callable[[], Disclosure],
    *,
    trains: Bools,
    names: Sequence[str],
) -> dict[str, Any]:
    """A column for each of COLUMNS, by the client's index, and `reason`: a place in `reasons` for
    what is null in its line, or null; as JSON.

    `figure`: what is spent; `client`: the names where the ledger has other subjects, as where all
    are charged together. `decide`: which of the clients of `scores` may be shown, which is slow and
    is called only where accuracies are stated; `trains` and `names` [clients].
    """
    clients = material.federation.clients
    every: dict[str, list[Any]] = {name: [None] * clients for name in COLUMNS}
    common = []
    mechanism = mechanism_of(material.spec)
    if mechanism.facts.subject_kind == "client":
        every["participations"] = material.releases.tolist()
        if material.refused is not None:
            every["refused"] = material.refused.tolist()
    else:
        common.append(mechanism.no_client_costs or _SECRET)
    found, remaining, why = _spent(material, mechanism)
    if found is None:
        common += [why] * (why not in common)
    else:
        paid = np.broadcast_to(found, clients)
        every["spent"] = _of_trained(paid, trains)
        if remaining is not None:
            every["remaining"] = _of_trained(np.maximum(0.0, remaining - paid), trains)
    own = _accuracies(material, scores, decide)
    stated = []
    for client, trained in enumerate(trains.tolist()):
        said = list(common) if trained else [NOT_TRAINED]
        accuracy = own.get(client, TRAINED if trained else _HELD_OUT)
        if isinstance(accuracy, str):
            said.insert(not trained, accuracy)
        else:
            every["accuracy"][client], every["accuracy_interval"][client] = accuracy
        stated.append(_BETWEEN.join(said))
    reasons = {text: place for place, text in enumerate(dict.fromkeys(filter(None, stated)))}
    numbers = [reasons.get(text) for text in stated]
    figure = None if found is None else material.inputs.cost_kind
    columns = {**every, "reason": numbers, "reasons": list(reasons), "figure": figure}
    if mechanism.facts.subject_kind != "client":
        columns["client"] = list(names)
    return columns


def _of_trained(figures: Floats, trains: Bools) -> list[float | None]:
    """None for clients that were held out: they pay nothing, and count in no quantile."""
    return [
        one if own else None for one, own in zip(figures.tolist(), trains.tolist(), strict=True)
    ]


def _accuracies(
    material: ReportMaterial, scores: ClientScores, decide: Callable[[], Disclosure]
) -> dict[int, tuple[float, dict[str, float]] | str]:
    """Each client's accuracy and its interval, as if its rows were drawn one by one, or why neither
    is stated."""
    fairness, sample = material.spec.fairness, material.spec.training.stopping.validation_clients
    why = None
    if scores.correct is None:
        why = NO_ACCURACY
    elif fairness.noise is not None:
        why = "fairness.noise protects the people held out, and this figure would have no noise"
    elif sample is not None and sample < len(scores.clients):
        why = (
            "rounds score samples of the held-out clients, whose figures less those of others "
            "would be those of small clients; leave training.stopping.validation_clients out"
        )
    elif fairness.exclude or isinstance(material.spec.federation.scoring, RowSplit):
        why = _SOME_ROWS
    if why is not None or scores.correct is None:
        return dict.fromkeys(scores.clients.tolist(), why or NO_ACCURACY)
    disclosure = decide()
    found: dict[int, tuple[float, dict[str, float]] | str] = {}
    for place, client in enumerate(scores.clients.tolist()):
        if disclosure.shown[place]:
            right, rows = int(scores.correct[place]), int(scores.rows[place])
            low, high = exact_limits(right, rows, confidence=_LEVEL)
            found[client] = right / rows, {"low": low, "high": high, "level": _LEVEL}
        else:
            found[client] = disclosure.reason(place)
    return found


def _spent(
    material: ReportMaterial, mechanism: PrivacyMechanism
) -> tuple[Floats | None, float | None, str]:
    """What each client that trains spent, [clients] or one number for all; the budget of each, if
    there is one; why nothing is stated."""
    inputs, plan = material.inputs, material.plan
    match inputs.cost_kind:
        case "leakage":
            budget = getattr(material.spec.privacy, "client_budget", None)
            return inputs.leakages(material.releases), budget, ""
        case "epsilon":
            if plan is None or plan.subject_kind == "record_group":
                return None, None, mechanism.no_client_costs or _SECRET
            # Against the observer that sees most: the last, which sees who takes part, if any does.
            observer = plan.observers[-1]
            counts = np.asarray(material.compositions[observer])
            found = plan.epsilons(
                observer, subjects=np.arange(len(plan.subjects)), compositions=counts
            )
            return found, mechanism.epsilon_budget, ""
        case "unbounded":
            return None, None, why_unbounded(inputs)
        case other:
            assert_never(other)


def shared_reasons(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the reasons of all clients that train have in common, where these are several."""
    stated = [(one["reason"] or "").split(_BETWEEN) for one in lines]
    trained = [one for one in stated if NOT_TRAINED not in one]
    if len(trained) < 2:
        return []
    return [one for one in trained[0] if one and all(one in other for other in trained)]


def client_line(columns: Mapping[str, Any], place: int, name: str) -> dict[str, Any]:
    """The line of the client at a place."""
    number = columns["reason"][place]
    return {
        "client": name,
        # Earlier versions kept no intervals.
        **{name: columns[name][place] if name in columns else None for name in COLUMNS},
        "reason": None if number is None else columns["reasons"][number],
    }
