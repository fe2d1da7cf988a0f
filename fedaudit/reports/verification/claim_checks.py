"""Whether the claims beside a report are those that its signer made, and say what it says."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.claim_bundles import claim_envelope, claim_of
from fedaudit.ledger.statements import Keyring
from fedaudit.reports.checks import Check, check, same, value_at
from fedaudit.reports.claims import following, subjects_of, types_of
from fedaudit.reports.report import report_hash
from fedaudit.reports.verification.checkpoints import Signed

ReadClaims = Signed[dict[str, Any]]
_SHOWN = 3


def read_claims(evidence: Evidence) -> ReadClaims:
    """The statements in these bundles, as far as they can be read."""
    return ReadClaims.read(evidence.claims, claim_of, what="claim {}", opened=claim_envelope)


def claim_checks(evidence: Evidence, found: ReadClaims, keyring: Keyring) -> Iterator[Check]:
    """The checks, in the order in which they are reported; none where the report names no key of
    claims and there are none. The report's signature vouches for that key."""
    report = evidence.report
    key_id = value_at(report, "integrity", "claims_key_id")
    if report is None or (key_id is None and not evidence.claims):
        return
    yield found.signatures(keyring, "claims", "claims", _name)
    wrong = sorted(found.signers - {key_id})
    yield check(
        "claims.key",
        not wrong,
        good="all were signed with the key that the report names",
        bad=f"the report does not name the key {', '.join(wrong[:_SHOWN])}",
    )
    try:
        expected, said = types_of(report), following(report)
        subjects = subjects_of(report, report_hash(report)) if found.items else {}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        yield check("claims.report", False, good="", bad="the report lacks what it claims")
        return
    types = [str(one.get("predicateType")) for one in found.items]
    missing = [kind for kind in expected if kind not in types]
    yield check(
        "claims.present",
        types == expected,
        good="they are all that are made of such a report",
        bad=f"missing: {', '.join(missing)}" if missing else "one is there twice, or was moved",
    )
    altered = [
        _name(one)
        for one, kind in zip(found.items, types, strict=True)
        if not _follows(one, subjects.get(kind), said.get(kind))
    ]
    yield check(
        "claims.report",
        not altered,
        good="each is about this report, and says what follows from it",
        bad=f"does not follow from this report: {'; '.join(altered[:_SHOWN])}",
    )


def _follows(claim: Mapping[str, Any], subject: object, predicate: object) -> bool:
    """`predicate`: None of a claim that says more than follows from the report alone."""
    if claim.get("subject") != subject:
        return False
    return predicate is None or same(claim.get("predicate"), predicate)


def _name(claim: Mapping[str, Any]) -> str:
    return f"the claim {str(claim.get('predicateType'))[:80]}"
