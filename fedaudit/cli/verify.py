"""The command `verify`: a bundle from a file, or one that is fetched from the service."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from fedaudit.cli.connection import connected, is_id
from fedaudit.cli.display.output import say, write_bytes, write_json, write_line
from fedaudit.cli.failures import CommandError, ExitCode, usage_error
from fedaudit.cli.options import AsJson
from fedaudit.ledger.bundle import NotABundleError, opened_bundle
from fedaudit.ledger.signatures import PublicKey, public_keys_in
from fedaudit.reports.checks import Outcome as CheckOutcome
from fedaudit.reports.verification.verification import (
    ALTERED,
    UNTRUSTED,
    VALID,
    Verification,
    verify,
)
from fedaudit_client.client import Client
from fedaudit_client.errors import ForbiddenError, NotFoundError, ProblemError

app = typer.Typer()
_EXIT = {VALID: ExitCode.DONE, ALTERED: ExitCode.FAILED, UNTRUSTED: ExitCode.NO_EVIDENCE}
_MARKS: dict[CheckOutcome, str] = {"pass": "ok", "fail": "FAIL", "unchecked": "?"}
_OF_LEDGERS = ("entries", "ledger_hash", "chain_head", "sign_offs", "later_attacks")
_MAX_KEY_FILE_BYTES = 1 << 20


@app.command("verify")
def verify_command(
    source: Annotated[
        str, typer.Argument(metavar="BUNDLE|ID", help="A file, an experiment, audit or ledger.")
    ],
    *,
    public_key: Annotated[
        Path | None, typer.Option(help="PEM of the public keys that you trust, had from elsewhere.")
    ] = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep the bundle of an ID here.")
    ] = None,
) -> None:
    """Exit 0 where all agrees under a trusted key, 1 where it was altered, 3 without such a key."""
    trusted = [] if public_key is None else _trusted_keys(public_key)
    with _bundle(source, out) as path:
        try:
            with opened_bundle(path) as evidence:
                found = verify(evidence, trusted=trusted)
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
        _tell(found, trusted=bool(trusted))
    raise typer.Exit(_EXIT[found.verdict])


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
    first: ProblemError | None = None
    ways = (client.download_bundle, client.download_audit_bundle, client.download_ledger_bundle)
    for download in ways:
        try:
            download(source, file)
            return
        except (NotFoundError, ForbiddenError) as error:
            first = first or error
    assert first is not None
    raise first


def _trusted_keys(path: Path) -> Sequence[PublicKey]:
    try:
        with path.open("rb") as file:
            return public_keys_in(file.read(_MAX_KEY_FILE_BYTES))
    except OSError as error:
        raise usage_error(f"--public-key: cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise usage_error(f"--public-key: {path}: {error}") from None


def _fields(found: Verification) -> dict[str, Any]:
    fields = {**asdict(found), "signers": list(found.signers), "beyond": list(found.beyond)}
    if found.subject == "audit":
        return {name: value for name, value in fields.items() if name not in _OF_LEDGERS}
    return {
        **fields,
        "sign_offs": [one.fields() for one in found.sign_offs],
        "later_attacks": [one.fields() for one in found.later_attacks],
    }


def _tell(found: Verification, *, trusted: bool) -> None:
    for one in found.checks:
        write_line(f"{_MARKS[one.outcome]:5} {one.name}: {one.detail}")
    for each in found.sign_offs:
        role = f", {each.role}" if each.role else ""
        despite = f", although: {', '.join(each.concerns)}" if each.concerns else ""
        write_line(f"sign-off {each.number}: {each.decision} by {each.person}{role}{despite}")
    for later in found.later_attacks:
        for attack in later.attacks:
            alarm = " ALARM" if attack.get("alarm") else ""
            told = f"{attack.get('kind')} {attack.get('status')}{alarm}"
            write_line(f"attacked later, {later.number}: {told}")
    for sentence in found.beyond:
        write_line(f"not verified: {sentence}")
    count = f", {found.entries} {'entry' if found.entries == 1 else 'entries'}"
    entries = "" if found.subject == "audit" else count
    write_line(f"{found.verdict}: {found.subject} {found.experiment_id}{entries}")
    if found.verdict != UNTRUSTED:
        return
    if trusted:
        say("nothing is altered, but not all of it was signed with a key of --public-key")
    else:
        say(
            "nothing is altered, but a key that comes with the evidence proves nothing: name one "
            "that you had from somebody you trust with --public-key FILE"
        )
