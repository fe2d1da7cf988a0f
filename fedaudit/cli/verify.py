"""The commands `verify` and `dossier`, and the check of an audit log."""

import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated, Any

from typer import Argument, Exit, Option, Typer

from fedaudit.cli.options import AsJson, ExperimentId, trusted_keys
from fedaudit.cli.output import (
    CommandError,
    ExitCode,
    say,
    usage_error,
    working,
    writable_folder,
    write_below,
    write_bytes,
    write_json,
    write_line,
)
from fedaudit.cli.remote import connected, is_id
from fedaudit.ledger.audit_log import AuditChain, SignedHead, chain_faults
from fedaudit.ledger.bundle import Evidence, NotABundleError, claim_lines, opened_bundle
from fedaudit.ledger.claim_bundles import claim_envelope, claim_of
from fedaudit.ledger.run_log import tiles
from fedaudit.reports.checks import Outcome as CheckOutcome
from fedaudit.reports.checks import value_at
from fedaudit.reports.claims import ML_BOM, MODEL_SIGNATURE, REPORT, TEST_RESULT, VERIFICATION
from fedaudit.reports.verification.verification import (
    ALTERED,
    REWORDED,
    UNTRUSTED,
    VALID,
    Verification,
    read_log,
    verify,
    verify_folder,
)
from fedaudit.spec.canonical import canonical_json
from fedaudit_client.client import Client
from fedaudit_client.errors import ForbiddenError, NotFoundError, ProblemError

app = Typer()
_EXIT = {VALID: ExitCode.DONE, ALTERED: ExitCode.FAILED, UNTRUSTED: ExitCode.NO_EVIDENCE}
_MARKS: dict[CheckOutcome, str] = {"pass": "ok", "fail": "FAIL", "unchecked": "?"}
_OF_LEDGERS = ("entries", "ledger_hash", "chain_head", "sign_offs", "later_attacks")
_WITHOUT_LEDGER = ("audit", "dossier")


@app.command("verify")
def verify_command(
    source: Annotated[
        str,
        Argument(
            metavar="BUNDLE|FOLDER|ID",
            help="A file, a dossier's folder, an experiment, audit or ledger.",
        ),
    ],
    *,
    public_key: Annotated[
        Path | None, Option(help="PEM of the public keys that you trust, had from elsewhere.")
    ] = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, Option("--out", help="Keep the bundle of an ID here.")] = None,
    earlier: Annotated[
        list[Path] | None,
        Option(
            exists=True,
            dir_okay=False,
            help="A bundle, or the log's `checkpoint`, from before; may be repeated.",
        ),
    ] = None,
    extract: Annotated[
        Path | None,
        Option(help="Write report, claims and the log of runs here, for others' verifiers."),
    ] = None,
) -> None:
    """Exit 0 where all agrees under a trusted key, 1 where it was altered, 3 without such a key."""
    trusted, heads = trusted_keys(public_key), [_kept_head(path) for path in earlier or ()]
    with _bundle(source, out) as path:
        try:
            if path.is_dir():
                if heads or extract is not None:
                    raise usage_error("--earlier, --extract: name a bundle; a dossier has no log")
                found = verify_folder(path, trusted=trusted)
            else:
                with opened_bundle(path) as evidence, working("checking every entry"):
                    found = verify(evidence, trusted=trusted, earlier=heads)
                if extract is not None and found.verdict != ALTERED:
                    _extract(evidence, extract)
        except NotABundleError as error:
            raise usage_error(f"{source} is no bundle: it {error}") from None
    if not Path(source).exists() and found.experiment_id != source:
        raise CommandError(
            f"the service answered with the bundle of another {found.subject}: {source} was asked "
            f"for, {found.experiment_id[:80]} came"
        )
    if as_json:
        write_json(_fields(found))
    else:
        _tell(found, trusted={key.key_id for key in trusted})
    raise Exit(_EXIT[found.verdict])


def _kept_head(path: Path) -> str:
    try:
        with opened_bundle(path) as evidence:
            head = value_at(evidence.log, "checkpoint")
    except NotABundleError:
        return path.read_text("utf-8", "replace")
    if head is None:
        raise usage_error(f"--earlier: {path} is in no log of runs; name a later bundle")
    return str(head)


_CLAIM_FILES = {
    TEST_RESULT: "gates",
    VERIFICATION: "verification",
    ML_BOM: "ml-bom",
    REPORT: "figures",
    MODEL_SIGNATURE: "model",
}


def _extract(evidence: Evidence, folder: Path) -> None:
    """What other people's tools read, each as a file, the log as a folder that can be served."""
    files: dict[str, bytes] = {}
    if evidence.report is not None:
        files["report.json"] = canonical_json(evidence.report)
        files["claims.jsonl"] = claim_lines(evidence.claims)
    for claim in evidence.claims:
        kind = claim_of(claim_envelope(claim))["predicateType"]
        files[f"{_CLAIM_FILES.get(kind, 'other')}.sigstore.json"] = canonical_json(claim)
    for key in evidence.keys:
        if key.key_id == value_at(evidence.report, "integrity", "claims_key_id"):
            files["claims-key.pub"] = key.pem.encode()
    if evidence.log is not None:
        entries = [one.encoded() for one in read_log(evidence)]
        files |= {f"log/{path}": content for path, content in tiles(entries)}
        files["log/checkpoint"] = evidence.log["checkpoint"].encode()
    for name, content in files.items():
        write_below(folder, name, [content])
    say(f"written to {folder}: {', '.join(name for name in files if '/' not in name)}")


@contextmanager
def _bundle(source: str, out: Path | None) -> Iterator[Path]:
    """The file that is named, or a bundle that is fetched, kept where `out` names a file."""
    path = Path(source)
    if path.exists():
        if out is not None:
            raise usage_error("--out: goes with an id, whose bundle it keeps")
        yield path
        return
    if not is_id(source):
        raise usage_error(
            f"{source} is neither a file nor the id of an experiment, audit or ledger"
        )
    with tempfile.TemporaryDirectory(prefix="fedaudit-verify-") as folder:
        fetched = Path(folder) / "bundle.zip"
        with connected() as client, fetched.open("wb") as file:
            _download(client, source, file)
        if out is not None:
            write_bytes(fetched.read_bytes(), out)
        yield fetched


def _download(client: Client, source: str, file: IO[bytes]) -> None:
    """Ids of experiments, audits and ledgers look alike. A key that opens no ledgers may open
    audits."""
    errors: list[ProblemError] = []
    ways = (client.download_bundle, client.download_audit_bundle, client.download_ledger_bundle)
    for download in ways:
        try:
            download(source, file)
            return
        except (NotFoundError, ForbiddenError) as error:
            errors.append(error)
    raise errors[0]


def _fields(found: Verification) -> dict[str, Any]:
    fields = asdict(found) | {
        "signers": list(found.signers),
        "beyond": list(found.beyond),
        "sign_offs": [one.fields() for one in found.sign_offs],
        "later_attacks": [one.fields() for one in found.later_attacks],
    }
    left_out = _OF_LEDGERS if found.subject in _WITHOUT_LEDGER else ()
    return {name: value for name, value in fields.items() if name not in left_out}


def _tell(found: Verification, *, trusted: Set[str]) -> None:
    for one in found.checks:
        write_line(f"{_MARKS[one.outcome]:5} {one.name}: {one.detail}")
    for each in found.sign_offs:
        role = f", {each.role}" if each.role else ""
        concerns = f"; concerns: {', '.join(each.concerns)}" if each.concerns else ""
        write_line(f"sign-off {each.number}: {each.decision} by {each.person}{role}{concerns}")
    for later in found.later_attacks:
        for attack in later.attacks:
            alarm = " ALARM" if attack.get("alarm") else ""
            outcome = f"{attack.get('kind')} {attack.get('status')}{alarm}"
            write_line(f"attacked later, {later.number}: {outcome}")
    for sentence in found.beyond:
        write_line(f"not verified: {sentence}")
    count = f", {found.entries} {'entry' if found.entries == 1 else 'entries'}"
    entries = "" if found.subject in _WITHOUT_LEDGER else count
    write_line(f"{found.verdict}: {found.subject} {found.experiment_id}{entries}")
    if found.verdict != UNTRUSTED:
        return
    left = {one.name for one in found.checks if one.outcome == "unchecked"}
    is_ours = bool(left and found.signers) and set(found.signers) <= trusted
    if is_ours and left <= REWORDED:
        say(
            "what is signed is unaltered, by a key of --public-key; the dossier's words or page "
            "are not those made of it here, by another build or altered: make the dossier anew"
        )
    elif is_ours:
        say(
            "nothing is altered, and what signatures show is by a key of --public-key; they do not "
            "show what is marked with ?"
        )
    elif trusted:
        say("nothing is altered, but not all of it was signed with a key of --public-key")
    else:
        say(
            "nothing is altered, but a key that comes with the evidence proves nothing: name one "
            "that you received from someone you trust with --public-key FILE"
        )


@app.command("dossier")
def dossier_command(
    experiment_id: ExperimentId,
    *,
    out: Annotated[Path, Option("--out", help="Write the files into this folder.")],
) -> None:
    """Write what an output checker decides by: the report by the controls of SATRE, with hashes."""
    folder = writable_folder(out)
    if (folder / "dossier.json").exists():
        raise usage_error(f"--out: {folder} has a dossier; name another folder, or delete it")
    with tempfile.TemporaryFile() as file:
        with connected() as client, working("making the dossier"):
            client.download_dossier(experiment_id, file)
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                # Plain names alone: nothing that a service sends is written outside the folder.
                write_bytes(archive.read(name), folder / Path(name).name)
    write_line(str(folder))


def checked(
    answer: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    *,
    public_key: Path | None,
    earlier: Any,
) -> dict[str, Any]:
    """The chain of all entries, in order, against the newest signed head and an earlier one.

    `answer`: what the service says of its log. Heads count as trusted where their signature is by
    a key in the file `public_key`. Raises CommandError for a file without keys.
    """
    keys, faults, heads = trusted_keys(public_key), list[str](), dict[str, SignedHead]()
    for what, value in {"the signed head": answer["signed_head"], "the kept head": earlier}.items():
        try:
            if value is not None:
                heads[what] = SignedHead.read(value, keys=keys or None)
        except ValueError as error:
            faults.append(f"{what} {error}")
    chain = AuditChain(str(answer["project_id"]))
    faults += chain_faults(chain, entries, heads)
    newest = heads.get("the signed head")
    return {
        "entries": chain.entries,
        "link": chain.link,
        "signed_entries": 0 if newest is None else newest.entries,
        "trusted": bool(keys) and newest is not None and not faults,
        "faults": faults,
    }
