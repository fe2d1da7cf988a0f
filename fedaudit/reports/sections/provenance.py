"""The sections `experiment`, `data`, `provenance` and `integrity`: what was run, on which data and
with which code, and what binds the report to its ledger and signer."""

import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from fedaudit import __version__
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.statements import Envelope, Keyring, SigningKey, signature_bytes, to_base64
from fedaudit.reports.checks import Check, agrees, numbered, shown, unknown_key, value_at
from fedaudit.reports.sections.material import ReportMaterial, RunEvidence
from fedaudit.reports.sections.part import WHERE_GIVEN, Part, Reasons, Section, no_limits
from fedaudit.spec.canonical import canonical_hash, canonical_json
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec, spec_hash
from fedaudit.spec.fairness import Fairness


class Integrity(Part):
    """What binds the report to its ledger and its signer."""

    ledger_hash: str
    chain_head: str
    entries: int
    signature: str | None
    """Ed25519, in base64, over the DSSE encoding of the report without this field."""
    key_id: str | None
    claims_key_id: Annotated[str | None, WHERE_GIVEN] = None
    """Id of the key that signs the claims beside the report; absent where there are none."""
    run: Annotated[int | None, WHERE_GIVEN] = None
    """The number of the run in the log of these data; absent where there is no log."""
    reasons: Reasons


PAYLOAD_TYPE = "application/vnd.fedaudit.report+json"


def report_payload(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON (RFC 8785) of the report without the field `integrity.signature`. Raises
    ValueError where the document has none."""
    integrity = document.get("integrity")
    if not isinstance(integrity, Mapping):
        raise ValueError("the report has no section `integrity`")
    unsigned = {name: value for name, value in integrity.items() if name != "signature"}
    return canonical_json({**document, "integrity": unsigned})


def sign_report(
    document: Mapping[str, Any],
    key: SigningKey,
    *,
    claims_key_id: str | None = None,
    run: int | None = None,
) -> dict[str, Any]:
    """The report with its signature. `claims_key_id`: of the key that signs what it claims; `run`:
    its number in the log of its data. Raises ValueError where the report was not assembled for this
    key, whose id is part of the signed content."""
    given = {"claims_key_id": claims_key_id, "run": run}
    added = {name: value for name, value in given.items() if value is not None}
    integrity = {**document["integrity"], **added}
    if integrity["key_id"] != key.key_id:
        raise ValueError(f"the report names the key {integrity['key_id']}, not {key.key_id}")
    integrity["reasons"] = {
        name: why for name, why in integrity["reasons"].items() if name != "signature"
    }
    signed = {**document, "integrity": integrity}
    envelope = Envelope.sign(PAYLOAD_TYPE, report_payload(signed), key)
    integrity["signature"] = to_base64(envelope.signature)
    return signed


def report_envelope(document: Mapping[str, Any]) -> Envelope | None:
    """The report as a DSSE envelope; None where it is not signed. Raises ValueError where the
    signature or the key's id is malformed."""
    payload = report_payload(document)
    integrity = document["integrity"]
    signature, key_id = integrity.get("signature"), integrity.get("key_id")
    if signature is None:
        return None
    if not isinstance(signature, str) or not isinstance(key_id, str):
        raise ValueError("the report's signature or its key_id is no text")
    return Envelope(PAYLOAD_TYPE, payload, key_id, signature_bytes(signature))


def signature_check(
    report: Mapping[str, Any], keyring: Keyring, *, with_checkpoints: bool
) -> Check:
    """Whether the report has a valid signature. The same process signs checkpoints and reports, so
    that neither occurs without the other."""
    name = "report.signature"
    try:
        envelope = report_envelope(report)
    except (ValueError, RecursionError) as error:
        return Check.failed(name, f"the report cannot be checked: {error}")
    if envelope is None:
        if not with_checkpoints and value_at(report, "integrity", "key_id") is None:
            return Check.unchecked(name, "the report is not signed")
        return Check.failed(name, "the report was signed, and has no signature now")
    key = keyring.get(envelope.key_id)
    if key is None:
        return Check.failed(name, unknown_key("the report", envelope.key_id))
    return Check.of(
        name,
        key.verifies(envelope.signature, envelope.message),
        good=f"the report was signed with the key {envelope.key_id}",
        bad=f"the report is not what the key {envelope.key_id} signed: it was altered",
    )


def integrity_checks(report: Mapping[str, Any], audit: LedgerAudit) -> Iterator[Check]:
    """Whether a report names the entries of its ledger, and how many there are."""
    yield agrees(report, "integrity.ledger_hash", audit.ledger_hash)
    yield agrees(report, "integrity.chain_head", audit.head.hex())
    stated = value_at(report, "integrity", "entries")
    bad = f"the report counts {shown(stated)} entries, the ledger has {audit.entries}"
    if type(stated) is int and stated > audit.entries and audit.unchained is None:
        bad += f": {numbered(audit.entries + 1, stated)} are missing"
    yield Check.of(
        "report.entries",
        type(stated) is int and stated == audit.entries,
        good=f"the ledger has the {audit.entries} entries that the report counts",
        bad=bad,
    )


def unsigned(material: Any, why: str = "the report is not signed") -> Integrity:
    """The section without its signature, which `sign_report` adds, for a report with a ledger."""
    missing = ("signature", "key_id") if material.key_id is None else ("signature",)
    return Integrity(
        ledger_hash=material.ledger_hash,
        chain_head=material.chain_head,
        entries=material.entries,
        signature=None,
        key_id=material.key_id,
        reasons=dict.fromkeys(missing, why),
    )


UNSIGNED = (
    "The report is not signed. Its hash chain shows changed or missing entries, but not that the "
    "newest ones were cut off, unless the chain's head is kept elsewhere."
)
SIGNED = (
    "The signature shows that the key's holder stated this, and that nothing was changed "
    "since. It does not show that what was stated is true, nor when."
)
INTEGRITY = Section[ReportMaterial, RunEvidence](
    "integrity",
    unsigned,
    lambda found: integrity_checks(found.report, found.audit),
    lambda material: [UNSIGNED if material.key_id is None else SIGNED],
)


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
    """The class of a two-class target that is favourable without a rule; absent otherwise."""
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


@cache
def _versions() -> dict[str, str]:
    """Versions of the libraries that are installed."""
    found = {}
    for name in ("numpy", "pyarrow", "torch"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


_FIXED = {
    "edges": "edges",
    "favourable": "the favourable outcome",
    "sensitive": "the sensitive attributes",
    "intersections": "their combinations",
    "split": "who is held out and scored",
    "source": "the columns and clients as registered",
}


def comparison_limits(fairness: Fairness) -> list[str]:
    """What joined and left-out groups hide, and what follows all the same."""
    found = []
    for name, groups in fairness.groups.items():
        joined = "; ".join(f"{group} is {', '.join(own)}" for group, own in groups.items())
        found.append(
            f"Values of {name} were joined ({joined}): no figure shows how these fare beside each "
            "other, and a group that fares well can hide one that does not."
        )
    left_out = [f"{name} {', '.join(values)}" for name, values in fairness.exclude.items()]
    if left_out:
        found.append(
            "No accuracy, loss, rate or gap here counts scored rows with "
            f"{'; '.join(left_out)}: how the model treats these people is not known, whether or "
            "not it learnt from them. A report on the same data that counts them, less this one, "
            "gives their accuracy, losses and outcomes: let the federation's disclosure policy fix "
            "`exclude` for all reports."
        )
    return found


def disclosure_limits(policy: DisclosurePolicy | None, spec: ExperimentSpec) -> list[str]:
    """What was fixed when the experiment was admitted, and what the submitter could choose.
    `policy`: None where no service admitted it. Data that a spec makes up have no people."""
    made_up = spec.federation.traits.draws_data
    if policy is None or made_up or not spec.fairness.sensitive:
        return []
    rows, clients = policy.minimum_group_size, policy.minimum_group_clients
    joined = policy.groups if policy.exclude is None else policy.exclude
    settings = [
        (rows, f"groups of {rows} scored rows or more"),
        (clients, f"of {clients} clients or more"),
        (joined, "values that are joined or left out"),
        *((getattr(policy, name), words) for name, words in _FIXED.items()),
    ]
    set_by_owner = [words for value, words in settings if value is not None]
    left = [words for name, words in _FIXED.items() if words not in set_by_owner]
    if not set_by_owner:
        return [
            "The federation's owner had set no disclosure policy: group sizes, edges, the "
            "favourable outcome and the split are those of the submitters. Reports on the same "
            "data that differ in one of them can give single people away."
        ]
    sentence = f"Set by the federation's owner: {', '.join(set_by_owner)}."
    if left:
        sentence += (
            f" Left to the submitters: {', '.join(left)}; reports on the same data that differ "
            "there, or that were made before the policy, can give single people away."
        )
    return [sentence]


def spec_hash_check(evidence: Evidence, report: Mapping[str, Any]) -> Check:
    """Whether the report is about the spec that came with it."""
    hashes = {
        "provenance.spec_hash of the report": value_at(report, "provenance", "spec_hash"),
        "experiment.spec_hash of the report": value_at(report, "experiment", "spec_hash"),
        "the hash of the report's spec": canonical_hash(value_at(report, "spec")),
    }
    stored = canonical_hash(evidence.spec)
    wrong = [name for name, value in hashes.items() if value is None or value != stored]
    return Check.of(
        "report.spec_hash",
        not wrong,
        good="the report is about the stored spec",
        bad=f"not that of the stored spec: {', '.join(wrong)}",
    )


EXPERIMENT = Section[ReportMaterial, RunEvidence](
    "experiment",
    lambda material: Experiment(
        id=material.experiment_id,
        name=material.name,
        spec_hash=spec_hash(material.spec),
        status=material.status,
    ),
    lambda found: [
        agrees(
            found.report, "experiment.id", found.evidence.experiment_id, name="report.experiment"
        )
    ],
    no_limits,
)


def _data(material: ReportMaterial) -> Data:
    facts = material.federation
    return Data(
        source=material.spec.federation.source,
        clients=facts.clients,
        training_clients=facts.training_clients,
        validation_clients=facts.clients - facts.training_clients,
        rows=facts.rows,
        parameters=material.inputs.n,
        positive_class=facts.positive_class,
        # A note may count rows, those of held-out people among them, whom noise protects.
        notes=[] if material.spec.fairness.noise is not None else [*_notes(material)],
    )


def _notes(material: ReportMaterial) -> Iterator[str]:
    """Those on the data; where a mechanism protects people, without numbers of few rows."""
    least = material.spec.fairness.minimum_group_size
    for note in material.federation.notes:
        what, _, rows = note.rpartition(": ")
        few = material.spec.privacy.protects and rows.isdecimal() and int(rows) < least
        yield f"{what}: fewer than {least}" if few else note


def _data_limits(material: ReportMaterial) -> Iterator[str]:
    traits = material.spec.federation.traits
    yield (
        "The numbers of clients and rows and a hash of the data are disclosed without noise: "
        "anyone who guesses the whole data set can confirm the guess."
    )
    if material.spec.privacy.protects:
        yield (
            "Taken as known as well, of training and held-out rows alike: which values the "
            "sensitive attributes have, the notes on the data (rows left out or in no group, empty "
            "cells that were filled, values brought into a range), and that the data could be read "
            "as the spec asks. No figure covers them: where one row alone decides such a fact, it "
            "shows for certain whether that row is there."
        )
    yield from traits.data_limits
    if material.spec.classifies and traits.finds_classes:
        yield (
            "Which classes there are was found in the data and is taken as known: a record of a "
            "class that no other one has would change the size of the model, which no figure "
            "covers."
        )


def _data_checks(found: RunEvidence) -> Iterator[Check]:
    """The data stay where they are; `training_clients` is checked with the privacy figures."""
    if found.spec is not None:
        source = found.spec.federation.source
        yield agrees(found.report, "data.source", source, name="report.data.source")
    data = found.report["data"]
    others = data["clients"] - data["training_clients"]
    yield agrees(found.report, "data.validation_clients", others)


DATA = Section[ReportMaterial, RunEvidence]("data", _data, _data_checks, _data_limits)


def _provenance(material: ReportMaterial) -> Provenance:
    known = {name: material.provenance.get(name) for name in RECORDED}
    return Provenance(
        spec_hash=spec_hash(material.spec),
        data_fingerprint=material.federation.fingerprint,
        seed=material.spec.seed,
        reasons={name: "was not recorded" for name, value in known.items() if value is None},
        **known,
    )


RECORDED = ("code_version", "libraries", "device", "backend", "started_at", "finished_at")


def _provenance_checks(found: RunEvidence) -> Iterator[Check]:
    yield spec_hash_check(found.evidence, found.report)
    if found.spec is not None:
        yield agrees(found.report, "provenance.seed", found.spec.seed, name="report.seed")


PROVENANCE = Section[ReportMaterial, RunEvidence](
    "provenance", _provenance, _provenance_checks, no_limits
)
HEAD = (EXPERIMENT, PROVENANCE, INTEGRITY)
