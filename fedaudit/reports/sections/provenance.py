"""The sections `experiment`, `data` and `provenance`: what was run, on what, and by which code."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from fedaudit.reports.sections.part import WHERE_GIVEN, Part, Reasons
from fedaudit.spec.disclosure.disclosure_policy import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.version import __version__


class Experiment(Part):
    """Which experiment the report is about."""

    id: str
    name: str
    spec_hash: str
    status: str


class Data(Part):
    """The federation, in numbers."""

    source: str
    clients: int
    training_clients: int
    validation_clients: int
    rows: int
    parameters: int
    positive_class: Annotated[str | None, WHERE_GIVEN] = None
    """Of a target with two classes the one that is favourable without a rule; absent otherwise."""
    notes: list[str]


class Provenance(Part):
    """Where the figures come from."""

    spec_hash: str
    data_fingerprint: str
    code_version: str | None
    libraries: dict[str, str] | None
    device: str | None
    backend: dict[str, str] | None
    seed: int
    started_at: str | None
    finished_at: str | None
    reasons: Reasons


_LIBRARIES = ("numpy", "pyarrow", "torch")


def provenance(*, device: str, backend: Mapping[str, str], started_at: datetime) -> dict[str, Any]:
    """The report's provenance of a run that ends now; `backend` as the trainer reports it."""
    return {
        "code_version": __version__,
        "libraries": {"python": platform.python_version(), **_versions()},
        "device": device,
        "backend": dict(backend),
        "started_at": started_at.isoformat(),
        "finished_at": datetime.now(UTC).isoformat(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


_FIXED = {
    "edges": "edges",
    "favourable": "the favourable outcome",
    "sensitive": "the sensitive attributes",
    "intersections": "their combinations",
    "split": "who is held out and scored",
    "source": "the columns and clients as registered",
}


def disclosure_limits(policy: DisclosurePolicy | None, spec: ExperimentSpec) -> list[str]:
    """What was fixed when the experiment was admitted, and what was left to whoever asked.

    `policy`: None where no service admitted it. Data that a spec makes up have no people.
    """
    made_up = spec.federation.traits.draws_data
    if policy is None or made_up or not spec.fairness.sensitive:
        return []
    left = [words for name, words in _FIXED.items() if getattr(policy, name) is None]
    set_by_owner = [
        *_minima(policy),
        *(words for name, words in _FIXED.items() if getattr(policy, name) is not None),
    ]
    if not set_by_owner:
        return [
            "The federation's owner had set no disclosure policy: group sizes, edges, the "
            "favourable outcome and the split are those of whoever asked. Reports on the same "
            "data that differ in one of them can give single people away."
        ]
    sentence = f"Set by the federation's owner: {', '.join(set_by_owner)}."
    if left:
        sentence += (
            f" Left to whoever asked: {', '.join(left)}; reports on the same data that differ "
            "there, or that were made before the policy, can give single people away."
        )
    return [sentence]


def _minima(policy: DisclosurePolicy) -> list[str]:
    found = []
    if policy.minimum_group_size is not None:
        found.append(f"groups of {policy.minimum_group_size} scored rows or more")
    if policy.minimum_group_clients is not None:
        found.append(f"of {policy.minimum_group_clients} clients or more")
    return found
