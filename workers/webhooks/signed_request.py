"""A delivery as it is sent: the body, and the headers of Standard Webhooks 1.0.0."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

from fedaudit.version import __version__


def signed_request(
    payload: Mapping[str, Any], *, message_id: str, secrets: Sequence[str]
) -> tuple[dict[str, str], bytes]:
    """Headers and body, signed now with each of the secrets (`whsec_` and base64).

    The time is the attempt's, so that a receiver can refuse what somebody recorded and sends later.
    """
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
