"""Delivers webhooks."""

import json
import random
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from standardwebhooks import Webhook

from fedaudit import __version__
from infrastructure.key_files import KeyFileError
from infrastructure.outbound import AddressRefusedError, UnansweredError, post
from infrastructure.secrets_key import SecretBox
from infrastructure.settings import Settings
from models.database import Database
from models.repositories import WebhookQueueRepository
from models.repositories.webhooks import Attempted, ClaimedDelivery
from workers.context import repeat

log = structlog.get_logger()

PAUSES_SECONDS: Sequence[float] = (
    *(5.0, 30.0, 5 * 60.0, 30 * 60.0),
    *(hours * 3600.0 for hours in (2, 5, 10, 14, 20, 24)),
)
"""Between attempts, before jitter: three days in all."""
_JITTER = 0.2
"""A pause is longer or shorter by up to this share: receivers that come back meet no crowd."""
_DISABLE_AFTER = timedelta(days=5)

_MAX_IN_FLIGHT = 16
"""Requests in flight."""
_MAX_IN_FLIGHT_PER_PROJECT = 4
_SEND_SECONDS = 15.0
_LEASE_SECONDS = 90.0
"""Longer than an attempt takes, with the look-up of the name."""
_DISPATCH_EVERY_SECONDS = 1.0
_STOP_SECONDS = 5.0

_GONE = 410
_MAX_ERROR_CHARACTERS = 500


class WebhookDispatcher:
    """Sends what is due until it is stopped."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Raises KeyFileError where secrets cannot be decrypted."""
        self._database = database
        self._allow_private = settings.webhooks_allow_private
        self._secrets = SecretBox(settings)
        self._stopping = threading.Event()
        self._changed = threading.Event()
        """Set where there may be something to do at once."""
        self._sending: list[threading.Thread] = []
        self._loop = threading.Thread(
            target=partial(repeat, self.dispatch_due, self._wait, seconds=_DISPATCH_EVERY_SECONDS),
            name="webhooks",
            daemon=True,
        )

    def start(self) -> None:
        """Deliver from now on."""
        self._loop.start()

    def stop(self) -> None:
        """Begin nothing more, and wait briefly for what is in flight; the rest is sent again when
        its lease has expired."""
        self._stopping.set()
        self._changed.set()
        deadline = monotonic() + _STOP_SECONDS
        # First what begins the others.
        self._loop.join(_STOP_SECONDS)
        for thread in self._sending:
            thread.join(max(0.0, deadline - monotonic()))

    def _wait(self, seconds: float) -> bool:
        self._changed.wait(seconds)
        self._changed.clear()
        return not self._stopping.is_set()

    def dispatch_due(self) -> None:
        """Begin to send what is due, as far as there are places. Raises SQLAlchemyError."""
        self._sending = [one for one in self._sending if one.is_alive()]
        places = _MAX_IN_FLIGHT - len(self._sending)
        with self._database.read() as session:
            due = WebhookQueueRepository(session).due(places, of_project=_MAX_IN_FLIGHT_PER_PROJECT)
        for delivery_id in due:
            if self._stopping.is_set():
                return
            with self._database.write() as session:
                queue = WebhookQueueRepository(session)
                claimed = queue.claim(delivery_id, lease_seconds=_LEASE_SECONDS)
            if claimed is not None:
                thread = threading.Thread(target=self._deliver, args=(claimed,), daemon=True)
                thread.start()
                self._sending.append(thread)

    def _deliver(self, claimed: ClaimedDelivery) -> None:
        try:
            attempted = self._attempt(claimed)
            gone, retries = attempted.status_code == _GONE, claimed.row.retries
            pause = None
            if not gone and retries < len(PAUSES_SECONDS):
                pause = PAUSES_SECONDS[retries] * random.uniform(1 - _JITTER, 1 + _JITTER)
            with self._database.write() as session:
                WebhookQueueRepository(session).note(
                    claimed,
                    attempted,
                    retry_in=pause,
                    disable="the receiver answered 410 Gone" if gone else None,
                    disable_after=_DISABLE_AFTER,
                )
            if attempted.error is not None:
                ids = {"delivery": claimed.row.id, "webhook": claimed.row.endpoint_id}
                log.info("webhook not delivered", **ids, error=attempted.error)
        except SQLAlchemyError as error:
            # It is sent again when its lease has run out.
            log.warning("delivery not noted", delivery=claimed.row.id, error=type(error).__name__)
        except Exception:
            log.exception("delivery failed", delivery=claimed.row.id)
        finally:
            self._changed.set()

    def _attempt(self, claimed: ClaimedDelivery) -> Attempted:
        begun = monotonic()
        status: int | None = None
        try:
            secrets = [self._secrets.decrypt(one) for one in claimed.secrets]
            headers, body = signed_request(
                claimed.row.payload, message_id=claimed.row.message_id, secrets=secrets
            )
            status = post(
                claimed.url,
                headers=headers,
                body=body,
                seconds=_SEND_SECONDS,
                allow_private=self._allow_private,
            )
            error = None if 200 <= status < 300 else f"the receiver answered {status}"
        except (UnansweredError, KeyFileError) as failure:
            error = str(failure)
        except AddressRefusedError as refused:
            error = f"not sent: {refused}"
        except Exception as failure:
            # An attempt like any other, so that the schedule ends.
            log.exception("delivery failed", delivery=claimed.row.id)
            error = type(failure).__name__
        return Attempted(status, monotonic() - begun, error and error[:_MAX_ERROR_CHARACTERS])


def signed_request(
    payload: Mapping[str, Any], *, message_id: str, secrets: Sequence[str]
) -> tuple[dict[str, str], bytes]:
    """Headers and body, signed now with each secret (`whsec_` and base64). The time is the
    attempt's, so that a receiver can refuse a replay."""
    body = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    # Of a time with another zone the library would take the digits for UTC.
    now = datetime.now(UTC).replace(microsecond=0)
    signatures = [Webhook(secret).sign(message_id, now, body) for secret in secrets]
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"fedaudit/{__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
    return headers, body.encode()
