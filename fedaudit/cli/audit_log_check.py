"""The check of an audit log by whoever does not run the service."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.cli.failures import usage_error
from fedaudit.ledger.signatures import Envelope, PublicKey, public_keys_in
from fedaudit.ledger.statements import AuditChain, SignedHead


def checked(
    told: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    *,
    public_key: Path | None,
    earlier: Any,
) -> dict[str, Any]:
    """The chain of all entries, in order, against the newest signed head and an earlier one.

    `told`: what the service says of its log. Heads count as trusted where their signature is one of
    the keys in the file `public_key`. Raises CommandError for a file without keys.
    """
    keys = {} if public_key is None else {key.key_id: key for key in _keys_in(public_key)}
    faults: list[str] = []
    heads = {"the signed head": told["signed_head"], "the kept head": earlier}
    read = {
        what: _head(what, value, keys, faults) for what, value in heads.items() if value is not None
    }
    links = _links(str(told["project_id"]), entries, faults)
    for what, head in read.items():
        if head is None:
            continue
        if head.project_id != told["project_id"]:
            faults.append(f"{what} is another project's")
        elif head.entries >= len(links):
            faults.append(f"{what} covers {head.entries} entries, and {len(links) - 1} hold")
        elif links[head.entries] != head.link:
            faults.append(f"entry {head.entries} is not the one that {what} covers")
    newest = read.get("the signed head")
    return {
        "entries": len(links) - 1,
        "link": links[-1],
        "signed_entries": 0 if newest is None else newest.entries,
        "trusted": bool(keys) and newest is not None and not faults,
        "faults": faults,
    }


def _links(
    project_id: str, entries: Sequence[Mapping[str, Any]], faults: list[str]
) -> Sequence[str]:
    """The link before the first entry and after each that follows."""
    chain = AuditChain(project_id)
    links = [chain.link]
    for entry in entries:
        try:
            chain.read(entry)
        except ValueError as error:
            faults.append(str(error))
            break
        links.append(chain.link)
    return links


def _head(
    what: str, value: Any, keys: Mapping[str, PublicKey], faults: list[str]
) -> SignedHead | None:
    try:
        envelope = Envelope.from_dict(value)
        head = SignedHead.of(envelope)
    except ValueError as error:
        faults.append(f"{what} {error}")
        return None
    key = keys.get(envelope.key_id)
    if keys and (key is None or not key.verifies(envelope.signature, envelope.message)):
        faults.append(f"{what} is not signed by a key that you gave")
        return None
    return head


def _keys_in(path: Path) -> Sequence[PublicKey]:
    try:
        return public_keys_in(path.read_bytes())
    except (OSError, ValueError) as error:
        raise usage_error(f"--public-key: {path}: {error}") from None
