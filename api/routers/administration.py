"""API keys, the audit log, the keys that the service signs with, webhooks and deliveries."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from secrets import token_bytes
from typing import Any

from fastapi import Depends, Response
from sqlalchemy.orm import Session

from api.http.answers import SmallInteger, earlier_name, key_type
from api.http.problems import conflict, invalid, not_found, unavailable
from api.openapi import Router, located, problems
from api.schemas import people
from api.schemas.base import PageParameters, of_row
from api.schemas.reports import SigningKeyBody, SigningKeyList
from api.services.lookups import find_webhook, found_by, list_page, note
from api.shared.resources import Resources
from api.shared.security import Administrator, Caller, ReportsReader
from fedaudit.ledger.audit_log import AuditChain, SignedHead, chain_faults
from fedaudit.ledger.statements import Envelope, PublicKey
from infrastructure.key_files import KeyFileError
from infrastructure.outbound import AddressRefusedError, check_url
from infrastructure.secrets_key import SecretBox
from infrastructure.settings import Settings
from models.person import Person
from models.repositories import (
    AnnouncementRepository,
    ApiKeyRepository,
    AuditLogRepository,
    SigningKeyRepository,
    WebhookDeliveryRepository,
    WebhookEndpointRepository,
)
from models.repositories.audit_log import FILTERS
from models.tables.accounts import WebhookEndpoint
from models.values import is_id

keys_router = Router(tags=["keys"])
_BLOCK = 1000
"""Entries of the log that are read at once."""


@keys_router.get("/api-keys")
def list_api_keys(call: Administrator) -> people.KeyList:
    """Every key of the project, without its secret."""
    with call.reading() as session:
        keys = ApiKeyRepository(session).list(call.project_id)
    return people.KeyList(items=[of_row(people.KeyBody, key) for key in keys], next_cursor=None)


@keys_router.post("/api-keys", status_code=201)
def create_api_key(call: Administrator, asked: people.KeyRequest) -> people.KeyWithSecretBody:
    """Make a key of this project; its secret is shown this once."""
    with call.writing() as session:
        key, plain = ApiKeyRepository(session).create(
            project_id=call.project_id,
            name=asked.name,
            scopes=list(dict.fromkeys(asked.scopes)),
            person=None if asked.person is None else Person(**asked.person.model_dump()),
            created_by=call.caller.actor,
        )
        person = None if key.person is None else key.person["name"]
        about = {"name": key.name, "scopes": list(key.scopes), "person": person}
        note(session, call.caller, "key.created", key.id, **about)
    return of_row(people.KeyWithSecretBody, key, key=plain)


def _earlier_rotation(response: Response) -> None:
    response.headers.update(earlier_name("rotate-secret"))


@keys_router.post(
    "/api-keys/{key_id}/rotation",
    name="rotate_key",
    deprecated=True,
    dependencies=[Depends(_earlier_rotation)],
)
@keys_router.post("/api-keys/{key_id}/rotate-secret")
def rotate_api_key(
    key_id: str, call: Administrator, parameters: people.RotationParameters
) -> people.KeyWithSecretBody:
    """Replace a key's secret; the new one is shown this once.

    The old one opens the key too until `previous_until`, and so do the sessions at the pages that
    were begun with it. A secret that was still let in beside the replaced one ends at once.
    """
    seconds = parameters.overlap_seconds
    with call.writing() as session:
        keys = ApiKeyRepository(session)
        key, plain = found_by(
            lambda id_: keys.rotate(call.project_id, id_, overlap=timedelta(seconds=seconds)),
            key_id,
            "key in force",
        )
        note(session, call.caller, "key.rotated", key_id, overlap_seconds=seconds)
    return of_row(people.KeyWithSecretBody, key, key=plain)


@keys_router.delete("/api-keys/{key_id}", status_code=204)
def revoke_api_key(key_id: str, call: Administrator) -> None:
    """End a key at once."""
    with call.writing() as session:
        if not (is_id(key_id) and ApiKeyRepository(session).revoke(call.project_id, key_id)):
            raise not_found("key in force")
        note(session, call.caller, "key.revoked", key_id)


@keys_router.get("/audit-log")
def list_audit_log(
    call: Administrator, parameters: people.AuditLogParameters
) -> people.AuditLogPage:
    """Who did what in the project, newest first: ids, names and settings, never data."""
    filters = parameters.model_dump(include={*FILTERS}, exclude_none=True)
    with call.reading() as session:
        rows = partial(AuditLogRepository(session, call.project_id).list, filters)
        return list_page(
            people.AuditLogPage,
            "audit-log",
            parameters,
            rows,
            lambda found: [people.AuditEntryBody(**row.content(), link=row.link) for row in found],
            key=key_type(SmallInteger),
        )


@keys_router.get("/audit-log/verification")
def verify_audit_log(call: Administrator) -> people.AuditLogVerification:
    """Computes every link anew, and compares the log with the newest signed head."""
    chain, faults, heads = AuditChain(call.project_id), list[str](), dict[str, SignedHead]()
    with call.reading() as session:
        log = AuditLogRepository(session, call.project_id)
        keys = SigningKeyRepository(session).list()
        head = log.head()
        end = 0 if head is None else head.entries
        try:
            if head is not None and (head.envelope is not None or head.signed_entries):
                signer = Envelope.from_dict(head.envelope).key_id
                of_signer = [one for one in keys if one.key_id == signer]
                known = [PublicKey.from_pem(one.public_key.encode()) for one in of_signer]
                heads["the signed head"] = SignedHead.read(head.envelope, keys=known)
                if any(one.compromised_at for one in of_signer):
                    faults.append("the signed head has a key that is marked as compromised")
        except ValueError as error:
            faults.append(f"the signed head {error}")
        faults += chain_faults(chain, _entries(log, end), heads)
    if head is not None and not faults and (chain.entries, chain.link) != (end, head.link):
        faults.append(f"the log ends with entry {chain.entries}, and {end} were written")
    return people.AuditLogVerification(
        project_id=call.project_id,
        entries=chain.entries,
        link=chain.link,
        valid=not faults,
        faults=faults,
        signed_entries=max((one.entries for one in heads.values()), default=0),
        signed_head=None if head is None else head.envelope,
    )


def _entries(log: AuditLogRepository, end: int) -> Iterator[dict[str, Any]]:
    """The first so many: Postgres reads each statement by itself, and more come meanwhile."""
    read = 0
    while block := log.block(read, limit=min(_BLOCK, end - read)):
        yield from ({**row.content(), "link": row.link} for row in block)
        read = block[-1].number


@keys_router.get("/signing-keys")
def list_signing_keys(call: ReportsReader) -> SigningKeyList:
    """Every public key, also the retired ones, oldest first.

    A signature is trusted only as far as the channel by which its key was received.
    """
    with call.reading() as session:
        keys = SigningKeyRepository(session).list()
    return SigningKeyList(items=[of_row(SigningKeyBody, key) for key in keys], next_cursor=None)


router = Router(prefix="/webhooks", tags=["webhooks"])

_MOST = 20
"""Most webhooks of one project."""


@router.get("")
def list_webhooks(call: Administrator, parameters: PageParameters) -> people.WebhookPage:
    """The project's webhooks, oldest first, and who registered them."""
    with call.reading() as session:
        rows = WebhookEndpointRepository(session, call.project_id).list
        return list_page(
            people.WebhookPage, "webhooks", parameters, rows, partial(map, people.WebhookBody.of)
        )


@router.post("", status_code=201, responses=problems(409) | located(201, "Registered.", "webhook"))
def create_webhook(
    call: Administrator, asked: people.WebhookRequest, response: Response
) -> people.NewSecretBody:
    """Register an address; the secret that its deliveries are signed with is shown this once."""
    _check_url(call.resources, asked.url)
    secret, stored = _new_secret(call.resources.settings)
    with call.writing() as session:
        endpoints = WebhookEndpointRepository(session, call.project_id)
        if endpoints.count() >= _MOST:
            raise conflict(f"the project has {_MOST} webhooks already; delete one first")
        row = endpoints.add(
            url=asked.url,
            events=list(dict.fromkeys(asked.events)),
            description=asked.description,
            secret=stored,
            by=call.caller.actor,
        )
        note(session, call.caller, "webhook.created", row.id, events=list(row.events))
    response.headers["Location"] = f"/v1/webhooks/{row.id}"
    return people.NewSecretBody.of(row, secret=secret)


@router.get("/{webhook_id}")
def get_webhook(webhook_id: str, call: Administrator) -> people.WebhookBody:
    """One webhook."""
    return people.WebhookBody.of(call.find(find_webhook, webhook_id))


@router.patch("/{webhook_id}")
def update_webhook(
    webhook_id: str, call: Administrator, asked: people.WebhookChange
) -> people.WebhookBody:
    """Change an address, its events, or whether it is enabled; its secret stays.

    Waiting deliveries are sent to the new address. A disabled webhook gets nothing new.
    """
    if asked.url is not None:
        _check_url(call.resources, asked.url)
    with call.writing() as session:
        row = find_webhook(session, call.caller, webhook_id, lock=True)
        changes = asked.model_dump(include={"url", "events", "description"}, exclude_none=True)
        changes |= _enabling(row, asked.enabled, call.caller)
        WebhookEndpointRepository(session, call.project_id).change(
            row, by=call.caller.actor, **changes
        )
        body = people.WebhookBody.of(row)
        note(session, call.caller, "webhook.changed", row.id, changed=sorted(changes))
    return body


@router.delete("/{webhook_id}", status_code=204)
def delete_webhook(webhook_id: str, call: Administrator) -> None:
    """Delete a webhook with its deliveries; waiting ones are never sent."""
    with call.writing() as session:
        endpoints = WebhookEndpointRepository(session, call.project_id)
        if not (is_id(webhook_id) and endpoints.delete(webhook_id)):
            raise not_found("webhook")
        note(session, call.caller, "webhook.deleted", webhook_id)


@router.post("/{webhook_id}/rotate-secret")
def rotate_webhook_secret(
    webhook_id: str, call: Administrator, parameters: people.RotationParameters
) -> people.NewSecretBody:
    """Replace the secret; the new one is shown this once.

    Deliveries are signed with both until `previous_secret_until`. A secret that was still valid
    beside the replaced one ends at once.
    """
    overlap = timedelta(seconds=parameters.overlap_seconds)
    with call.writing() as session:
        row = find_webhook(session, call.caller, webhook_id, lock=True)
        secret, stored = _new_secret(call.resources.settings)
        WebhookEndpointRepository(session, call.project_id).change(
            row,
            by=call.caller.actor,
            secret=stored,
            previous_secret=row.secret if overlap else None,
            previous_until=datetime.now(UTC) + overlap if overlap else None,
        )
        note(session, call.caller, "webhook.secret-rotated", row.id)
    return people.NewSecretBody.of(row, secret=secret)


def _new_secret(settings: Settings) -> tuple[str, str]:
    """A new secret, and the same encrypted. Raises ProblemError where the service has no key."""
    try:
        box = SecretBox(settings)
    except KeyFileError as error:
        raise unavailable(str(error)) from None
    secret = f"whsec_{b64encode(token_bytes(32)).decode()}"
    return secret, box.encrypt(secret)


def _check_url(resources: Resources, url: str) -> None:
    """Raises ProblemError for an address that deliveries are not sent to."""
    try:
        check_url(url, allow_private=resources.settings.webhooks_allow_private)
    except AddressRefusedError as error:
        raise invalid("/url", str(error)) from None


def _enabling(row: WebhookEndpoint, enabled: bool | None, caller: Caller) -> dict[str, Any]:
    if enabled is None or enabled == (row.disabled_at is None):
        return {}
    if enabled:
        # Or the next failure would disable it again at once.
        return {"disabled_at": None, "disabled_reason": None, "failing_since": None}
    who = caller.actor.person or caller.actor.key_name
    return {"disabled_at": datetime.now(UTC), "disabled_reason": f"disabled by {who}"}


@router.get("/{webhook_id}/deliveries")
def list_webhook_deliveries(
    webhook_id: str, call: Administrator, parameters: PageParameters
) -> people.DeliveryPage:
    """The deliveries to a webhook of the last 30 days, and those that wait, newest first."""
    with call.reading() as session:
        find_webhook(session, call.caller, webhook_id)
        rows = partial(WebhookDeliveryRepository(session, call.project_id).list, webhook_id)
        route, bodies = f"webhook-deliveries:{webhook_id}", partial(map, people.DeliveryBody.of)
        return list_page(people.DeliveryPage, route, parameters, rows, bodies)


@router.post("/{webhook_id}/test", status_code=202, responses=problems(409))
def test_webhook(webhook_id: str, call: Administrator) -> people.DeliveryBody:
    """Send the event `webhook.test`, as any other is sent; its delivery says how that went."""
    with call.writing() as session:
        _lock_enabled(session, call.caller, webhook_id)
        announcements = AnnouncementRepository(session, call.project_id)
        return people.DeliveryBody.of(announcements.test(webhook_id))


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/redeliver", status_code=202, responses=problems(409)
)
def redeliver_webhook(
    webhook_id: str, delivery_id: str, call: Administrator
) -> people.DeliveryBody:
    """Send a delivery again, under the same `webhook-id`, with a whole schedule of retries."""
    with call.writing() as session:
        _lock_enabled(session, call.caller, webhook_id)
        deliveries = WebhookDeliveryRepository(session, call.project_id)
        get = partial(deliveries.get, webhook_id)
        found_by(get, delivery_id, "delivery")
        if not deliveries.send_again(webhook_id, delivery_id):
            raise conflict("the delivery is being sent just now")
        return people.DeliveryBody.of(found_by(get, delivery_id, "delivery"))


def _lock_enabled(session: Session, caller: Caller, webhook_id: str) -> None:
    row = find_webhook(session, caller, webhook_id, lock=True)
    if row.disabled_at is not None:
        raise conflict(f"the webhook is disabled ({row.disabled_reason}); enable it first")
