"""Whether a report is the signed one, and agrees with its ledger."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from fedaudit.federations.split import training_clients
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.signatures import Keyring
from fedaudit.networks.shape import are_layers_of
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.document.checks import (
    Check,
    canonical_hash,
    check,
    numbered,
    same,
    shown,
    unchecked,
    unknown_key,
    value_at,
)
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.gates.gate_evidence import as_judged_then, deltas_then, uncharged_then
from fedaudit.reports.gates.noised_gates import intervals_then
from fedaudit.reports.sections.privacy_section import log_ratio_max
from fedaudit.reports.verification.epsilon_checks import epsilon_checks
from fedaudit.reports.verification.hypotheses_checks import hypotheses_checks
from fedaudit.reports.verification.noise_checks import noise_checks
from fedaudit.reports.verification.recompute import LedgerTotals, recompute
from fedaudit.reports.verification.report_signature import report_envelope
from fedaudit.reports.verification.words_checks import words_checks
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted


def report_checks(
    evidence: Evidence,
    report: Mapping[str, Any],
    audit: LedgerAudit,
    totals: LedgerTotals,
    keyring: Keyring,
) -> Iterator[Check]:
    """The checks, in the order in which they are reported."""
    yield signature_check(report, keyring, with_checkpoints=bool(evidence.checkpoints))
    yield agrees(report, "experiment.id", evidence.experiment_id, name="report.experiment")
    yield spec_hash_check(evidence, report)
    yield agrees(report, "integrity.ledger_hash", audit.ledger_hash)
    yield agrees(report, "integrity.chain_head", audit.head.hex())
    yield _entries(report, audit)
    yield _rounds(report, totals)
    yield from _figures(evidence, report, totals)


def signature_check(
    report: Mapping[str, Any], keyring: Keyring, *, with_checkpoints: bool
) -> Check:
    """Checkpoints and reports are signed by the
    same process, so neither occurs without the other."""
    name = "report.signature"
    try:
        envelope = report_envelope(report)
    except (ValueError, RecursionError) as error:
        return check(name, False, good="", bad=f"the report cannot be checked: {error}")
    if (
        envelope is None
        and not with_checkpoints
        and value_at(report, "integrity", "key_id") is None
    ):
        return unchecked(name, "the report is not signed")
    if envelope is None:
        return check(name, False, good="", bad="the report was signed, and has no signature now")
    key = keyring.get(envelope.key_id)
    if key is None:
        return check(name, False, good="", bad=unknown_key("the report", envelope.key_id))
    return check(
        name,
        key.verifies(envelope.signature, envelope.message),
        good=f"the report was signed with the key {envelope.key_id}",
        bad=f"the report is not what the key {envelope.key_id} signed: it was altered",
    )


def agrees(report: Mapping[str, Any], path: str, found: Any, *, name: str | None = None) -> Check:
    """Whether the report says at `path` what was found."""
    said = value_at(report, *path.split("."))
    return check(
        name or f"report.{path.rpartition('.')[2]}",
        same(said, found),
        good=f"{path} is equal to what was recomputed",
        bad=f"{path} is {shown(said)} in the report and {shown(found)} recomputed",
    )


def spec_hash_check(evidence: Evidence, report: Mapping[str, Any]) -> Check:
    """Whether the report is about the spec that came with it."""
    hashes = {
        "provenance.spec_hash of the report": value_at(report, "provenance", "spec_hash"),
        "experiment.spec_hash of the report": value_at(report, "experiment", "spec_hash"),
        "the hash of the report's spec": canonical_hash(value_at(report, "spec")),
    }
    stored = canonical_hash(evidence.spec)
    wrong = [name for name, value in hashes.items() if value is None or value != stored]
    return check(
        "report.spec_hash",
        not wrong,
        good="the report is about the stored spec",
        bad=f"not that of the stored spec: {', '.join(wrong)}",
    )


def _entries(report: Mapping[str, Any], audit: LedgerAudit) -> Check:
    said = value_at(report, "integrity", "entries")
    bad = f"the report counts {shown(said)} entries, the ledger has {audit.entries}"
    if type(said) is int and said > audit.entries and audit.unchained is None:
        bad += f": {numbered(audit.entries + 1, said)} are missing"
    return check(
        "report.entries",
        type(said) is int and said == audit.entries,
        good=f"the ledger has the {audit.entries} entries that the report counts",
        bad=bad,
    )


def _rounds(report: Mapping[str, Any], totals: LedgerTotals) -> Check:
    said = value_at(report, "utility", "rounds")
    # Not by counting up to the last round, whose number an altered row may set arbitrarily.
    expected = set(range(1, len(totals.rounds) + 1))
    missing = expected - totals.rounds
    if missing:
        bad = f"there is no entry of round {min(missing)}"
    else:
        bad = f"the report gives {shown(said)} rounds, the ledger {len(totals.rounds)}"
    return check(
        "report.rounds",
        not missing and type(said) is int and said == len(totals.rounds),
        good="every round of the report has an entry",
        bad=bad,
    )


def _figures(
    evidence: Evidence, report: Mapping[str, Any], totals: LedgerTotals
) -> Iterator[Check]:
    """The figures that follow from entries and spec, and the gates that follow from figures."""
    try:
        spec = parse_admitted(evidence.spec)
    except InvalidInputError:
        why = "the stored spec cannot be read, or is of another version"
        yield unchecked("report.figures", why)
        return
    parameters = value_at(report, "data", "parameters")
    if type(parameters) is not int:
        yield check("ledger.inputs", False, good="", bad="the report gives no data.parameters")
    else:
        yield from _check_mechanism(spec, report, totals, parameters, evidence.names)
        yield from _check_guarantee(spec, report, parameters)
    yield from noise_checks(spec, report)
    yield from words_checks(report)
    yield check_gates(spec, report)


def _check_guarantee(
    spec: ExperimentSpec, report: Mapping[str, Any], parameters: int
) -> Iterator[Check]:
    """What the report states of its guarantee, where its version stated it."""
    try:
        found = mechanism_of(spec).guarantee(n=parameters, layers=_layers(spec, report))
    except (ValueError, OverflowError, InvalidInputError):
        return  # `ledger.inputs` says that parameters or layers are not those of the entries
    for name in ("label", "in_force", "conditions"):
        if value_at(report, "guarantee", name) is not None:
            stated = getattr(found, name)
            yield agrees(report, f"guarantee.{name}", stated, name=f"report.guarantee.{name}")


def _check_mechanism(
    spec: ExperimentSpec,
    report: Mapping[str, Any],
    totals: LedgerTotals,
    parameters: int,
    names: Sequence[str],
) -> Iterator[Check]:
    """The figures of the spec's mechanism, depending on how its cost is counted."""
    cost_kind = mechanism_of(spec).cost_kind
    match cost_kind:
        case "epsilon":
            yield from epsilon_checks(spec, report, totals, parameters, names)
        case "leakage" | "unbounded":
            yield from _check_against_ledger(spec, report, totals, parameters, len(names))
        case _:
            assert_never(cost_kind)


def _check_against_ledger(
    spec: ExperimentSpec,
    report: Mapping[str, Any],
    totals: LedgerTotals,
    parameters: int,
    clients: int,
) -> Iterator[Check]:
    try:
        inputs = mechanism_of(spec).inputs(n=parameters, layers=_layers(spec, report))
    except ValueError as error:
        yield check(
            "ledger.inputs", False, good="", bad=f"the report's layers are invalid: {error}"
        )
        return
    yield check(
        "ledger.inputs",
        totals.inputs <= {inputs},
        good="every entry has the mechanism of the spec",
        bad="the mechanism of some entries is not that of spec and report",
    )
    yield check(
        "ledger.radii",
        not totals.misfits,
        good="every release has a radius that its mechanism can give",
        bad=f"{totals.misfits} entries have a radius that their mechanism cannot give",
    )
    try:
        training = training_clients(clients, spec.federation)
        figures = recompute(
            totals, inputs=inputs, training_clients=training, hypotheses=spec.training.hypotheses
        )
    except ValueError as error:
        yield check("report.figures", False, good="", bad=f"no figure follows: {error}")
        return
    if figures is None:
        why = f"this version cannot compute the figures of {inputs.mechanism} anew"
        yield unchecked("report.figures", why)
        return
    yield agrees(report, "data.training_clients", training)
    for name, value in figures.items():
        yield agrees(report, f"privacy.{name}", value)
    if value_at(report, "privacy", "log_ratio_max") is not None:
        most = int(totals.releases.max(initial=0))
        bounded = log_ratio_max(inputs, most)
        yield agrees(report, "privacy.log_ratio_max", bounded)
    yield from hypotheses_checks(spec, report, totals, inputs)


def _layers(spec: ExperimentSpec, report: Mapping[str, Any]) -> tuple[int, ...]:
    """Parameters of each layer that the report names; empty where one noise covers all.

    The data are not available, so the check against the spec is whether its model can have such
    layers. Raises ValueError where it cannot.
    """
    if not spec.privacy.has_noise_per_layer:
        return ()
    said = value_at(report, "privacy", "leakage_by_component")
    sizes = [value_at(part, "parameters") for part in said] if isinstance(said, list) else []
    if not all(type(size) is int for size in sizes) or not are_layers_of(spec.model, sizes):
        raise ValueError(f"{shown(sizes)} are not the layers of the spec's model")
    return tuple(sizes)


def check_gates(spec: ExperimentSpec, report: Mapping[str, Any]) -> Check:
    """Whether the report's gates follow from its figures, by the rules of its time."""
    fields = ("figure", "attribute", "op", "bound", "value", "outcome")
    try:
        gates = [as_judged_then(gate, report) for gate in spec.gates]
        judged = evaluate(gates, uncharged_then(intervals_then(deltas_then(report))))
        found = [{name: gate[name] for name in fields} for gate in judged]
        said = [{name: gate[name] for name in fields} for gate in report["gates"]]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return check("report.gates", False, good="", bad="the report lacks what its gates need")
    return check(
        "report.gates",
        same(said, found),
        good="the gates follow from the report's figures",
        bad="the outcomes of the gates do not follow from the report's figures",
    )
