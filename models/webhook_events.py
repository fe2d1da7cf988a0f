"""What webhooks tell of, by the names that their receivers see."""

from typing import Literal, get_args

WebhookEvent = Literal[
    "experiment.finished",
    "gate.failed",
    "alarm.raised",
    "budget.low",
    "ledger.round_refused",
    "erasure.completed",
]
"""What can be subscribed to."""
WEBHOOK_EVENTS: tuple[WebhookEvent, ...] = get_args(WebhookEvent)

TEST_EVENT: Literal["webhook.test"] = "webhook.test"
"""Sent when somebody asks for it, whatever the endpoint has subscribed to."""

DeliveryState = Literal["waiting", "sending", "delivered", "failed"]
"""`failed`: no further attempt is made unless somebody asks for one."""
