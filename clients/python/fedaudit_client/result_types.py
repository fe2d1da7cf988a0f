"""The shapes of the service's answers, for type checkers and editors: plain dictionaries.

Those of large answers; a newer service may add fields. Times are texts, as `2026-11-22T20:45:07Z`.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

Status = Literal["queued", "running", "cancelling", "cancelled", "succeeded", "failed"]
GateOutcome = Literal["pass", "fail", "insufficient_evidence"]


class Progress(TypedDict):
    """How far an experiment is."""

    round: int
    rounds: int


class Actor(TypedDict):
    """The key that did something, and whose it was."""

    key_id: str
    key_name: str
    person: str | None


class Experiment(TypedDict):
    """One experiment."""

    id: str
    name: str
    status: Status
    status_reason: str | None
    status_detail: str | None
    federation_id: str
    spec: dict[str, Any] | None
    """None only in a list that was asked to leave it out."""
    spec_hash: str
    tags: Sequence[str]
    progress: Progress
    figures: dict[str, Any]
    """Each null has its reason in `reasons`."""
    gate_outcome: GateOutcome | None
    alarms: int | None
    retry_of: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    created_by: Actor | None
    cancel_requested_at: str | None
    cancelled_by: Actor | None


class Submitted(Experiment):
    """An experiment that was accepted just now."""

    warnings: Sequence[str]
    """What its acceptance does not say."""


class Projection(TypedDict):
    """What an experiment would cost, at worst unless named otherwise."""

    leakage_worst_case: float | None
    leakage_expected: float | None
    log_ratio_worst_case: float | None
    epsilon: Sequence[dict[str, Any]]
    """One for each observer, with its delta and adjacency; never one without them."""
    budget_ends_in_round: int | None
    noise_multiplier: float | None
    fairness_epsilon: dict[str, Any] | None
    reasons: dict[str, str]


class Validation(TypedDict):
    """What the service says of a spec that it did not store."""

    spec: dict[str, Any]
    spec_hash: str
    parameters: int
    clients: int
    training_clients: int
    projection: Projection
    budget: dict[str, Any]
    warnings: Sequence[str]


class Fault(TypedDict):
    """What is wrong with a field."""

    pointer: str
    message: str


class Federation(TypedDict):
    """One federation: clients' data, known by their fingerprint."""

    id: str
    name: str
    source: str
    status: Literal["profiling", "ready", "rejected", "deleted", "erased"]
    fingerprint: str
    file_name: str | None
    size_bytes: int | None
    registration: dict[str, Any] | None
    errors: Sequence[Fault]
    """Why it was rejected."""
    clients: int | None
    rows: int | None
    profile: dict[str, Any] | None
    created_at: str
    profiled_at: str | None
    simulation: Literal["allowed", "forbidden"]
    disclosure: dict[str, Any] | None
    deleted_at: str | None
    warnings: Sequence[str]


class Budget(TypedDict):
    """One budget on a federation's data: leakage or epsilon, never both."""

    book: str
    figure: Literal["leakage", "epsilon"]
    delta: float | None
    adjacency: str | None
    observer: str | None
    total: float | None
    reserved: float
    spent: float
    remaining: float | None
    unit: str | None
    uncounted: Sequence[dict[str, Any]]
    """Runs that this budget does not count."""
    scope: str
    reason: str | None
    """Why a figure is null."""


class GateResult(TypedDict):
    """One gate, and what it found."""

    figure: str
    attribute: str | None
    outcome: GateOutcome
    value: float | None
    reason: str | None


class GatesEvaluation(TypedDict):
    """What became of gates on an experiment, or on a ledger."""

    experiment_id: str | None
    """None of a ledger's."""
    policy: str | None
    outcome: GateOutcome | None
    """None where there are no gates; `reason` says so."""
    reason: str | None
    gates: Sequence[GateResult]


class Policy(TypedDict):
    """Gates under a name."""

    name: str
    description: str
    gates: Sequence[dict[str, Any]]
    created_at: str
    updated_at: str
    created_by: Actor | None
    updated_by: Actor | None


class Key(TypedDict):
    """An API key, without its secret."""

    id: str
    name: str
    prefix: str
    scopes: Sequence[str]
    person: dict[str, Any] | None
    created_at: str
    created_by: Actor | None
    rotated_at: str | None
    previous_until: str | None
    """Until when the secret before it opens the key too."""
    revoked_at: str | None


class Erasure(TypedDict):
    """One erasure of a federation."""

    federation_id: str
    number: int
    status: Literal["erasing", "erased"]
    reference: str | None
    requested_at: str
    requested_by: Actor
    completed_at: str | None
    removed: dict[str, int]
    remains: dict[str, str]
    ledgers: Sequence[str]
    files_left: int
    other_projects: int
    receipt: dict[str, Any] | None


class NewKey(Key):
    """An API key that was made just now."""

    key: str
    """The secret, shown this once."""


class SignOff(TypedDict):
    """What a person stated of a report."""

    number: int
    decision: Literal["approved", "rejected", "needs-changes"]
    note: str
    role: str | None
    person: str
    key_id: str
    key_name: str
    by_submitter: bool | None
    concerns: Sequence[Any]
    report_hash: str
    signed_off_at: str
    envelope: dict[str, Any] | None


class Artifact(TypedDict):
    """A file of parameters to start from."""

    id: str
    size_bytes: int
    hypotheses: int
    parameters: int
    tensors: Sequence[dict[str, Any]]


class ListedArtifact(TypedDict):
    """A file of parameters in the project's list."""

    id: str
    name: str | None
    size_bytes: int
    hypotheses: int
    parameters: int
    created_at: str
    created_by: dict[str, Any] | None
    uses: int
    used_by: Sequence[dict[str, Any]]


class SigningKey(TypedDict):
    """A public key of the service."""

    key_id: str
    algorithm: str
    public_key: str
    created_at: str
    retired_at: str | None
    compromised_at: str | None
    """From when on others may have signed with it."""
    compromised_note: str | None


class ListedReport(TypedDict):
    """A report in a list, with its figures."""

    experiment: dict[str, Any]
    verdict: str | None
    degenerate: bool | None
    guarantee: dict[str, Any] | None
    gate_outcome: GateOutcome | None
    sign_off: dict[str, Any] | None
    largest_gap: dict[str, Any] | None
    figures: Sequence[dict[str, Any]]
    report_hash: str
    href: str
    reasons: dict[str, str]


class Audit(TypedDict):
    """An audit of predictions that were made elsewhere."""

    id: str
    name: str
    status: Literal["queued", "running", "succeeded", "failed"]
    status_reason: str | None
    errors: Sequence[Fault]
    """Why it failed, every fault at once."""
    spec: dict[str, Any]
    spec_hash: str
    data_fingerprint: str
    gate_outcome: GateOutcome | None
    created_at: str
    created_by: Actor | None
    started_at: str | None
    finished_at: str | None


class LaterAttacks(TypedDict):
    """Attacks on an experiment that were asked for after its report was signed."""

    id: str
    experiment_id: str
    number: int
    status: Literal["queued", "running", "cancelling", "cancelled", "succeeded", "failed"]
    status_reason: str | None
    status_detail: str | None
    asked: Sequence[dict[str, Any]]
    report_hash: str
    ledger_hash: str
    basis: Literal["repeated", "stored-model", "companions"] | None
    items: Sequence[dict[str, Any]]
    """What became of each: `position`, `section`, `files`."""
    alarms: int | None
    created_at: str
    created_by: Actor
    started_at: str | None
    finished_at: str | None
    cancelled_by: Actor | None
    envelope: dict[str, Any] | None
    """The same, signed (DSSE)."""


class VerificationCheck(TypedDict):
    """One check of a report, and what it found."""

    name: str
    outcome: Literal["pass", "fail", "unchecked"]
    detail: str


class AuditVerification(TypedDict):
    """What the service found when it checked an audit's report."""

    audit_id: str
    valid: bool
    verdict: str
    checks: Sequence[VerificationCheck]
    not_verified: Sequence[str]
    """What no check can say."""
    signature: str | None
    key_id: str | None
    reasons: dict[str, str]
