"""Claims beside a report: other people's verifiers accept them, and each names a changed one."""

import base64
import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from fedaudit.ledger.bundle import Evidence, bundle_chunks, claim_lines, opened_bundle
from fedaudit.ledger.claim_bundles import ClaimsKey, claim_envelope, claim_of
from fedaudit.ledger.statements import Keyring, SigningKey
from fedaudit.privacy.mechanisms.registry import MECHANISMS
from fedaudit.reports.checks import Check
from fedaudit.reports.claims import ML_BOM, MODEL_SIGNATURE, TEST_RESULT, VERIFICATION, claims_of
from fedaudit.reports.dossier.dossier import dossier_files
from fedaudit.reports.report import assemble, report_hash
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verification.checkpoints import Signed, claim_checks
from fedaudit.reports.verification.verification import verify_folder
from tests.processes import completed
from tests.reports.conftest import SPEC
from tests.reports.reading_documents import BY_DISTANCE, WITHOUT_NOISE, documents, gaussian

KEY = SigningKey.generate()
PUBLIC = ClaimsKey(KEY).public
ID = "01890000-0000-7000-8000-000000000000"
MODEL = b"hypotheses"
CHECKS = [
    Check.of("ledger.chain", True, good="", bad=""),
    Check.of("report.words", False, good="", bad=""),
    Check.unchecked("ledger.epsilons", "too many"),
]
LOWER_BOUND = {
    "kind": "canaries",
    "status": "done",
    "reason": None,
    "statement": "Canaries were put in.",
    "capabilities": [],
    "bounds": [{"name": "f-dp", "epsilon_lower_bound": 0.5}],
}


def evidence_of(document: Mapping[str, Any], **changes: Any) -> Evidence:
    """A signed report and its claims; `changes` replace sections."""
    integrity = {**document["integrity"], "key_id": KEY.key_id}
    experiment = {**document["experiment"], "id": ID}
    unsigned = {**document, **changes, "experiment": experiment, "integrity": integrity}
    report = sign_report(unsigned, KEY, claims_key_id=PUBLIC.key_id)
    made = claims_of(report, report_hash(report), verified=CHECKS, at="2030-01-02T03:04:05Z")
    claims = [ClaimsKey(KEY).sign(one) for one in made]
    return Evidence(ID, report["spec"], report, keys=[KEY.public, PUBLIC], claims=claims)


@pytest.fixture
def evidence(material) -> dict[str, Evidence]:
    """A report of each kind of mechanism with its claims; one has a model and an attack."""
    found = {name: evidence_of(one) for name, one in documents(material).items()}
    model = found["fixed"].report
    section = {"sha256": hashlib.sha256(MODEL).hexdigest(), "size_bytes": len(MODEL), "round": 1}
    section |= {"hypotheses": 1, "tensors": []}
    attacked = {"attacks": [LOWER_BOUND], "model": section}
    return {
        **found,
        "local": evidence_of(gaussian(material, mechanism="gaussian-local", cohort={"clients": 7})),
        "record": evidence_of(assemble(material(WITHOUT_NOISE))),
        "distance": evidence_of(assemble(material(BY_DISTANCE))),
        "model": evidence_of(model, **attacked),
    }


def checked(evidence: Evidence, claims: list[Any] | None = None) -> dict[str, Check]:
    changed = evidence if claims is None else replace(evidence, claims=claims)
    keyring = Keyring(trusted=[KEY.public], carried=evidence.keys)
    read = Signed.read(changed.claims, claim_of, what="claim {}", opened=claim_envelope)
    return {one.name: one for one in claim_checks(changed, read, keyring)}


def statement(claim: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(claim["dsseEnvelope"]["payload"]))
    return found


def predicate(one: Evidence, kind: str) -> dict[str, Any]:
    """What the only claim of a kind says."""
    stated = map(statement, one.claims)
    [found] = [claim["predicate"] for claim in stated if claim["predicateType"] == kind]
    return found


def changed(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The claim about another file: one character of a digest is another."""
    text = base64.b64decode(claim["dsseEnvelope"]["payload"]).decode()
    place = text.index('"sha256":"') + 10
    other = "0" if text[place] != "0" else "1"
    payload = base64.b64encode((text[:place] + other + text[place + 1 :]).encode()).decode()
    return {**claim, "dsseEnvelope": {**claim["dsseEnvelope"], "payload": payload}}


def test_claims_of_every_mechanism_are_accepted_and_a_changed_one_is_named(evidence):
    mechanisms = {one.spec["privacy"]["mechanism"] for one in evidence.values()}
    assert mechanisms == {one.facts.name for one in MECHANISMS}
    for one in evidence.values():
        assert {found.outcome for found in checked(one).values()} == {"pass"}
        for place, claim in enumerate(one.claims):
            altered = [*one.claims[:place], changed(claim), *one.claims[place + 1 :]]
            found = checked(one, altered)["claims.signatures"]
            assert found.outcome == "fail"
            assert statement(claim)["predicateType"] in found.detail


def test_claims_of_a_dossier_are_in_its_folder_and_verified(evidence, tmp_path):
    files = dossier_files(evidence["fixed"], printed=None)
    for lines, outcome in ((files["claims.jsonl"], "pass"), (b"{}\n", "fail"), (b"{\n", None)):
        for name, content in {**files, "claims.jsonl": lines}.items():
            (tmp_path / name).write_bytes(content)
        found = {one.name: one.outcome for one in verify_folder(tmp_path).checks}
        assert found.get("claims.signatures") == outcome
        assert ("fail" in found.values()) == (outcome != "pass")


def test_claims_that_are_missing_foreign_or_of_another_report_are_found(evidence):
    own, other = evidence["fixed"], evidence["adaptive"]
    rest = [one for one in own.claims if statement(one)["predicateType"] != ML_BOM]
    assert "missing: https://cyclonedx.org/bom" in checked(own, rest)["claims.present"].detail
    assert checked(own, [])["claims.present"].outcome == "fail"
    assert checked(own, list(other.claims))["claims.report"].outcome == "fail"
    foreign = ClaimsKey(SigningKey.generate())
    signed = [foreign.sign(statement(one)) for one in own.claims]
    assert checked(own, signed)["claims.key"].outcome == "fail"
    integrity = {**own.report["integrity"], "claims_key_id": {}}
    nameless = replace(own, report={**own.report, "integrity": integrity})
    assert checked(nameless)["claims.key"].outcome == "fail"
    # Signed with the right key, and better than the report: its gates failed.
    better = statement(own.claims[0])
    better["predicate"] = {**better["predicate"], "result": "PASSED", "failedTests": []}
    [_, *others] = own.claims
    found = checked(own, [ClaimsKey(KEY).sign(better), *others])
    assert TEST_RESULT in found["claims.report"].detail


def test_lacking_evidence_is_a_failed_test_and_an_allowance_a_warning(material):
    gates = [{**gate, "value": 1e9} for gate in SPEC["gates"]]
    lacking = {"figure": "accuracy", "op": "ge", "value": 0.0}
    report = assemble(material({"gates": [*gates, lacking]}))
    predicate = statement(evidence_of(report).claims[0])["predicate"]
    assert predicate["result"] == "FAILED"
    assert predicate["failedTests"] == ["accuracy ge 0: insufficient evidence"]
    assert predicate["warnedTests"] == [
        "leakage_max le 1000000000: allow_heuristic, allow_simulation"
    ]
    assert len(predicate["passedTests"]) == 1
    warned = evidence_of(assemble(material({"gates": gates}))).claims[0]
    assert statement(warned)["predicate"]["result"] == "WARNED"


def test_only_checks_that_passed_are_properties_of_the_verification(evidence):
    assert predicate(evidence["fixed"], VERIFICATION)["properties"] == ["FEDAUDIT_LEDGER_CHAIN"]


def test_a_bundle_keeps_claims_and_a_damaged_line_is_a_fault(evidence, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(b"".join(bundle_chunks(evidence["model"], ())))
    with opened_bundle(path) as found:
        assert (list(found.claims), found.faults) == (list(evidence["model"].claims), [])


def test_cyclonedx_accepts_every_bill_of_materials_and_sees_the_lower_bound(evidence):
    for one in evidence.values():
        bom = predicate(one, ML_BOM)
        validator = JsonStrictValidator(SchemaVersion.V1_6)
        assert validator.validate_str(json.dumps(bom)) is None
        altered = {**bom, "declarations": {**bom["declarations"], "claim": []}}
        assert validator.validate_str(json.dumps(altered)) is not None
    [claim] = bom["declarations"]["claims"]
    assert (claim["evidence"], claim["counterEvidence"]) == ([], ["attack-1"])
    # Silence supports the claim only where canaries would have found half of the noise.
    tried = one.report["attacks"][0]
    found_nothing = {**tried, "bounds": [{**tried["bounds"][0], "epsilon_lower_bound": 0.0}]}
    for power, expected in (("too little", []), (None, ["attack-1"])):
        found_nothing["bounds"][0]["all_clear"] = power
        silent = predicate(evidence_of(one.report, attacks=[found_nothing]), ML_BOM)
        [claim] = silent["declarations"]["claims"]
        assert (claim["evidence"], claim["counterEvidence"]) == (expected, [])
    [attack] = bom["declarations"]["evidence"]
    assert attack["description"].startswith("epsilon_lower_bound (f-dp) 0.5. ")
    metrics = bom["metadata"]["component"]["modelCard"]["quantitativeAnalysis"]
    slices = [one for one in metrics["performanceMetrics"] if one.get("slice") == "group=g1"]
    gaps = [one for one in metrics["performanceMetrics"] if "confidenceInterval" in one]
    assert any("confidenceInterval" in one for one in slices)
    assert gaps


def test_securesystemslib_verifies_every_envelope_and_refuses_a_changed_one(evidence):
    public = load_pem_public_key(PUBLIC.pem.encode())
    key = SSlibKey.from_crypto(public, keyid=PUBLIC.key_id)
    for one in evidence.values():
        for claim in one.claims:
            Envelope.from_dict(json.loads(json.dumps(claim["dsseEnvelope"]))).verify([key], 1)
            with pytest.raises(VerificationError):
                Envelope.from_dict(changed(claim)["dsseEnvelope"]).verify([key], 1)


@pytest.mark.integrations
def test_sigstore_for_javascript_verifies_every_bundle_and_names_a_changed_one(evidence, tmp_path):
    packages = Path(sys.prefix) / "node"
    if shutil.which("node") is None or not packages.exists():
        pytest.skip("needs node, and the packages that `make test-integrations` installs")
    key = tmp_path / "claims-key.pub"
    key.write_text(PUBLIC.pem)
    script = Path(__file__).with_name("sigstore_verify.cjs")
    for one in evidence.values():
        lines = tmp_path / "claims.jsonl"
        for place in (None, *range(len(one.claims))):
            claims = [
                changed(claim) if at == place else claim for at, claim in enumerate(one.claims)
            ]
            lines.write_bytes(claim_lines(claims))
            command = ["node", str(script), str(packages), str(key), str(lines)]
            done = completed(command)
            said = json.loads(done.stdout)
            assert said == [None if at != place else "SIGNATURE_ERROR" for at in range(len(claims))]


@pytest.mark.integrations
def test_in_toto_reads_every_statement(evidence):
    pytest.importorskip("in_toto_attestation", reason="needs the extra `integrations`")
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    for one in evidence.values():
        for claim in map(statement, one.claims):
            read = json_format.ParseDict(claim, statement_pb2.Statement())
            Statement.copy_from_pb(read).validate()


@pytest.mark.integrations
def test_model_signing_verifies_the_models_file_and_refuses_another(evidence, tmp_path):
    verifying = pytest.importorskip("model_signing", reason="needs `integrations`").verifying
    [claim] = [
        one
        for one in evidence["model"].claims
        if statement(one)["predicateType"] == MODEL_SIGNATURE
    ]
    model, key, signature = (tmp_path / name for name in ("model.safetensors", "key", "signature"))
    model.write_bytes(MODEL)
    key.write_text(PUBLIC.pem)

    def verify(value: Mapping[str, Any]) -> None:
        signature.write_text(json.dumps(value))
        config = verifying.Config().use_elliptic_key_verifier(public_key=key)
        config.verify(model, signature)

    verify(claim)
    with pytest.raises(InvalidSignature):
        verify(changed(claim))
    model.write_bytes(MODEL + b"!")
    with pytest.raises(ValueError, match="mismatch"):
        verify(claim)
