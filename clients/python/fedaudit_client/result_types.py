"""The shapes of the service's answers: plain dictionaries, for type checkers and editors.

Written by `make client-types` from the service's OpenAPI document. Those of large answers; a newer
service may add fields. Times are texts, as `2026-11-22T20:45:07Z`.
"""
# ruff: noqa: E501, UP013
# fmt: off

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Progress = TypedDict("Progress", {  # Rounds done, of the most that there can be
    "round": int, "rounds": int,
})
Actor = TypedDict("Actor", {  # Who did something: the key, and its person as named at that time by its administrator
    "key_id": str, "key_name": str, "person": str | None,
})
Submitted = TypedDict("Submitted", {  # An experiment that was accepted
    "id": str, "name": str,
    "status": Literal['queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed'],
    "status_reason": str | None, "status_detail": str | None, "federation_id": str,
    "spec": Mapping[str, Any], "spec_hash": str, "tags": Sequence[str], "progress": Progress,
    "figures": Mapping[str, Any], "gate_outcome": str | None, "alarms": int | None,
    "retry_of": str | None, "created_at": str, "started_at": str | None,
    "finished_at": str | None, "created_by": Actor | None, "cancel_requested_at": str | None,
    "cancelled_by": Actor | None, "warnings": Sequence[str],
})
Experiment = TypedDict("Experiment", {  # An experiment in a list
    "id": str, "name": str,
    "status": Literal['queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed'],
    "status_reason": str | None, "status_detail": str | None, "federation_id": str,
    "spec": Mapping[str, Any] | None, "spec_hash": str, "tags": Sequence[str],
    "progress": Progress, "figures": Mapping[str, Any], "gate_outcome": str | None,
    "alarms": int | None, "retry_of": str | None, "created_at": str, "started_at": str | None,
    "finished_at": str | None, "created_by": Actor | None, "cancel_requested_at": str | None,
    "cancelled_by": Actor | None,
})
Projection = TypedDict("Projection", {  # What an experiment would cost if every round ran
    "leakage_worst_case": float | None, "leakage_expected": float | None,
    "log_ratio_worst_case": float | None, "epsilon": Sequence[Mapping[str, Any]],
    "budget_ends_in_round": int | None, "noise_multiplier": float | None,
    "fairness_epsilon": Mapping[str, Any] | None, "reasons": Mapping[str, str],
})
Validation = TypedDict("Validation", {  # A spec that could be run, with every default explicit; nothing was stored
    "spec": Mapping[str, Any], "spec_hash": str, "parameters": int, "clients": int,
    "training_clients": int, "projection": Projection, "budget": Mapping[str, Any],
    "warnings": Sequence[str],
})
Federation = TypedDict("Federation", {  # One federation: the clients' data, known by its fingerprint
    "id": str, "name": str, "source": str,
    "status": Literal['profiling', 'ready', 'rejected', 'deleted', 'erased'], "fingerprint": str,
    "file_name": str | None, "size_bytes": int | None, "registration": Mapping[str, Any] | None,
    "reasons": Sequence[Mapping[str, Any]], "errors": Sequence[Mapping[str, Any]],
    "clients": int | None, "rows": int | None, "profile": Mapping[str, Any] | None,
    "created_at": str, "profiled_at": str | None, "simulation": Literal['allowed', 'forbidden'],
    "disclosure": Mapping[str, Any] | None, "deleted_at": str | None, "warnings": Sequence[str],
})
Erasure = TypedDict("Erasure", {  # One erasure: what it removed, what remains, and its signed receipt
    "federation_id": str, "number": int, "status": Literal['erasing', 'erased'],
    "reference": str | None, "requested_at": str, "requested_by": Actor,
    "completed_at": str | None, "removed": Mapping[str, int], "remains": Mapping[str, str],
    "ledgers": Sequence[str], "files_left": int, "other_projects": int,
    "receipt": Mapping[str, Any] | None,
})
Budget = TypedDict("Budget", {  # One budget on a content; `total` is null where nobody has set a bound
    "book": str, "figure": Literal['leakage', 'log_ratio', 'epsilon'], "delta": float | None,
    "adjacency": str | None, "observer": str | None, "total": float | None, "reserved": float,
    "spent": float, "declared": float, "remaining": float | None,
    "radius": float | Literal['adaptive'] | None, "clip": float | None, "unit": str | None,
    "uncounted": Sequence[Mapping[str, Any]], "unit_key": str | None, "total_names_clients": bool,
    "across": Literal['service', 'project'], "scope": str, "own_total": float | None,
    "is_owner": bool, "others": Mapping[str, Any], "reason": str | None,
})
GateResult = TypedDict("GateResult", {  # One condition and whether it holds
    "figure": str, "attribute": str | None, "op": Literal['le', 'ge'], "bound": float,
    "value": float | None, "outcome": Literal['pass', 'fail', 'insufficient_evidence'],
    "reason": str,
})
GatesEvaluation = TypedDict("GatesEvaluation", {  # The worst outcome, and that of each gate
    "experiment_id": str | None, "ledger_id": str | None,
    "outcome": Literal['pass', 'fail', 'insufficient_evidence'] | None, "reason": str | None,
    "gates": Sequence[GateResult],
})
NewKey = TypedDict("NewKey", {  # A key that was just made
    "id": str, "name": str, "prefix": str, "scopes": Sequence[str],
    "person": Mapping[str, Any] | None, "created_at": str, "created_by": Actor | None,
    "rotated_at": str | None, "previous_until": str | None, "revoked_at": str | None, "key": str,
})
Key = TypedDict("Key", {  # A key without its secret
    "id": str, "name": str, "prefix": str, "scopes": Sequence[str],
    "person": Mapping[str, Any] | None, "created_at": str, "created_by": Actor | None,
    "rotated_at": str | None, "previous_until": str | None, "revoked_at": str | None,
})
SignOff = TypedDict("SignOff", {  # A sign-off of a report
    "number": int, "decision": Literal['approved', 'rejected', 'needs-changes'], "note": str,
    "role": str | None, "person": str, "key_id": str, "key_name": str,
    "by_submitter": bool | None,
    "concerns": Sequence[Literal['model-decides-nothing', 'model-not-shown-useful', 'model-too-good', 'gates-failed', 'gates-lack-evidence', 'no-guarantee', 'guarantee-not-in-force', 'guarantee-bounds-nothing', 'guarantee-not-proven', 'attack-raised-alarm']],
    "report_hash": str, "signed_off_at": str, "envelope": Mapping[str, Any] | None,
})
Artifact = TypedDict("Artifact", {  # A file of parameters, in safetensors
    "id": str, "size_bytes": int, "hypotheses": int, "parameters": int,
    "tensors": Sequence[Mapping[str, Any]],
})
ListedArtifact = TypedDict("ListedArtifact", {  # A file of parameters in the project's list
    "id": str, "name": str | None, "size_bytes": int, "hypotheses": int, "parameters": int,
    "created_at": str, "created_by": Actor | None, "uses": int,
    "used_by": Sequence[Mapping[str, Any]],
})
SigningKey = TypedDict("SigningKey", {  # One key
    "key_id": str, "algorithm": str, "public_key": str, "created_at": str,
    "retired_at": str | None, "compromised_at": str | None, "compromised_note": str | None,
})
ListedReport = TypedDict("ListedReport", {  # A report in a list; `href` leads to the whole of it
    "experiment": Mapping[str, Any], "verdict": str | None, "degenerate": bool | None,
    "guarantee": Mapping[str, Any] | None, "gate_outcome": str | None,
    "sign_off": Mapping[str, Any] | None, "largest_gap": Mapping[str, Any] | None,
    "figures": Sequence[Mapping[str, Any]], "report_hash": str, "href": str,
    "reasons": Mapping[str, str],
})
Fault = TypedDict("Fault", {  # What of the data does not fit the audit
    "pointer": str, "message": str,
})
Audit = TypedDict("Audit", {  # One audit
    "id": str, "name": str, "status": Literal['queued', 'running', 'succeeded', 'failed'],
    "status_reason": str | None, "errors": Sequence[Fault], "spec": Mapping[str, Any],
    "spec_hash": str, "data_fingerprint": str, "gate_outcome": str | None, "created_at": str,
    "created_by": Actor | None, "started_at": str | None, "finished_at": str | None,
})
LaterAttacks = TypedDict("LaterAttacks", {  # Attacks that were asked for after the report was signed
    "id": str, "experiment_id": str, "number": int,
    "status": Literal['queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed'],
    "status_reason": str | None, "status_detail": str | None,
    "asked": Sequence[Mapping[str, Any]], "report_hash": str, "ledger_hash": str,
    "basis": Literal['repeated', 'stored-model', 'companions'] | None,
    "items": Sequence[Mapping[str, Any]], "alarms": int | None, "created_at": str,
    "created_by": Actor, "started_at": str | None, "finished_at": str | None,
    "cancelled_by": Actor | None, "envelope": Mapping[str, Any] | None,
})
VerificationCheck = TypedDict("VerificationCheck", {  # One thing that was checked
    "name": str, "outcome": Literal['pass', 'fail', 'unchecked'], "detail": str,
})
AuditVerification = TypedDict("AuditVerification", {  # What was found when an audit's report was checked: its signature, and what follows from the figures that it publishes
    "audit_id": str, "valid": bool,
    "verdict": Literal['valid', 'consistent, signer untrusted', 'altered'],
    "checks": Sequence[VerificationCheck], "not_verified": Sequence[str], "signature": str | None,
    "key_id": str | None, "reasons": Mapping[str, str],
})
SweepProgress = TypedDict("SweepProgress", {  # How far a sweep is
    "cells": int, "ended": int, "statuses": Mapping[str, int], "rounds": int, "rounds_total": int,
})
SweepEpsilon = TypedDict("SweepEpsilon", {  # An epsilon of all cells together
    "observer": str, "delta": float, "adjacency": str, "unit": str, "value": float,
    "cell_max": float,
})
SweepCosts = TypedDict("SweepCosts", {  # What all cells may cost together; null with a reason
    "leakage": float | None, "log_ratio_max": float | None, "epsilon": Sequence[SweepEpsilon],
    "reasons": Mapping[str, str],
})
SweepFacts = TypedDict("SweepFacts", {  # Of all cells, each distinct word once
    "cost_kinds": Sequence[str], "noises": Sequence[str], "guarantees": Sequence[str],
    "conditions": Sequence[str], "leakage_conditions": Sequence[str],
})
SweepCell = TypedDict("SweepCell", {  # One cell: the newest try of it
    "position": int, "experiment_id": str, "values": Mapping[str, Any],
    "status": Literal['queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed'],
    "status_reason": str | None, "gate_outcome": str | None, "progress": Progress,
})
SubmittedSweep = TypedDict("SubmittedSweep", {  # A sweep that was accepted
    "id": str, "name": str,
    "status": Literal['queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed'],
    "progress": SweepProgress, "created_at": str, "created_by": Actor, "asked": Mapping[str, Any],
    "costs": SweepCosts, "facts": SweepFacts, "cells": Sequence[SweepCell],
    "warnings": Sequence[str],
})
Sweep = TypedDict("Sweep", {  # A sweep and its cells
    "id": str, "name": str,
    "status": Literal['queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed'],
    "progress": SweepProgress, "created_at": str, "created_by": Actor, "asked": Mapping[str, Any],
    "costs": SweepCosts, "facts": SweepFacts, "cells": Sequence[SweepCell],
})
ListedSweep = TypedDict("ListedSweep", {  # A sweep in a list
    "id": str, "name": str,
    "status": Literal['queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed'],
    "progress": SweepProgress, "created_at": str, "created_by": Actor,
})
SweepValidation = TypedDict("SweepValidation", {  # A sweep that could be run; nothing was stored
    "cells": int, "costs": SweepCosts | None, "facts": SweepFacts, "has_room": bool,
    "detail": str | None, "warnings": Sequence[str],
})
FigureSpread = TypedDict("FigureSpread", {  # A figure of a row
    "n": int, "mean": float | None, "standard_deviation": float | None, "low": float | None,
    "high": float | None, "best": bool,
})
SweepRow = TypedDict("SweepRow", {  # One combination over its seeds
    "values": Mapping[str, Any], "experiment_ids": Sequence[str], "seeds": int, "succeeded": int,
    "degenerate": int, "figures": Mapping[str, FigureSpread], "unbounded": bool, "front": bool,
})
SweepTable = TypedDict("SweepTable", {  # A row for each combination, over its seeds
    "figures": Sequence[str], "rows": Sequence[SweepRow], "front_figures": Sequence[str],
    "notes": Sequence[str],
})
