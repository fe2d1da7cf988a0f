"""The queue that wakes workers. It carries unit ids and nothing else: the database is the truth.

A message may be lost or delivered twice on any transport (measured: a killed worker loses it on
a filesystem, Redis repeats it after the visibility timeout), so who runs a unit is decided by a
claim in the database and the sweeper publishes again what waits too long.
"""

import os
import uuid
from pathlib import Path
from time import monotonic
from typing import Any

from celery import Celery
from kombu.entity import Exchange
from kombu.entity import Queue as CeleryQueue
from kombu.exceptions import KombuError, OperationalError
from kombu.transport import filesystem
from kombu.utils.json import dumps

from infrastructure.settings import Settings

RUN_UNIT = "fedaudit.run_unit"
DEVICES = ("auto", "cpu", "cuda")
_POLL_SECONDS = 0.1
_PRODUCER_TIMEOUT_SECONDS = 1.0


class QueueUnavailableError(Exception):
    """The broker cannot be reached; what was to be published stays unpublished."""


def queue_name(device: str) -> str:
    """The queue of units that ask for a device: `auto`, `cpu` or `cuda`."""
    return f"fedaudit.{device}"


def celery_app(settings: Settings, *, producer: bool = False) -> Celery:
    """The Celery application; a `producer` gives up on a dead broker within about a second."""
    app = Celery("fedaudit", set_as_current=not producer)
    # The unnamed exchange leads to the queue that a message names, without bindings to declare.
    unnamed = Exchange("")  # type: ignore[no-untyped-call]
    queues = [
        CeleryQueue(  # type: ignore[no-untyped-call]
            queue_name(device),
            exchange=unnamed,
            routing_key=queue_name(device),
            # A message is gone once it is delivered. Acknowledged by Celery it would be only after
            # the work, where a worker without other processes gets round to it; if the broker is
            # away then, the message counts as unacknowledged for good and no other is fetched.
            no_ack=True,
        )
        for device in DEVICES
    ]
    app.conf.update(
        task_queues=queues,
        task_default_queue=queue_name("auto"),
        task_default_exchange="",
        task_ignore_result=True,
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_concurrency=1,
        worker_pool="solo",
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        **_broker(settings.broker_url, producer=producer),
    )
    return app


def _broker(url: str, *, producer: bool) -> dict[str, Any]:
    if url.startswith("filesystem://"):
        folder = Path(url.removeprefix("filesystem://"))
        folder.mkdir(parents=True, exist_ok=True)
        return {
            "broker_url": "filesystem://localhost/",
            "broker_transport": "infrastructure.queue:Transport",
            "broker_transport_options": {
                "data_folder_in": str(folder),
                "data_folder_out": str(folder),
                "control_folder": str(folder / "control"),
                "store_processed": False,
                "polling_interval": _POLL_SECONDS,
            },
        }
    options: dict[str, Any] = {
        "socket_connect_timeout": _PRODUCER_TIMEOUT_SECONDS,
        "socket_keepalive": True,
    }
    if producer:
        options |= {
            "socket_timeout": _PRODUCER_TIMEOUT_SECONDS,
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0,
            "interval_max": 0,
        }
    return {"broker_url": url, "broker_transport_options": options}


class Queue:
    """Publishes unit ids. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._app = celery_app(settings, producer=True)

    def publish_unit(self, unit_id: str, device: str) -> None:
        """Wake a worker of the device for a unit. Raises QueueUnavailableError quickly."""
        queue = queue_name(device)
        try:
            self._app.send_task(RUN_UNIT, args=[unit_id], queue=queue, retry=False)
        except (OperationalError, KombuError, OSError) as error:
            raise QueueUnavailableError(str(error)) from error

    def close(self) -> None:
        """Close the connections to the broker."""
        self._app.close()


class Channel(filesystem.Channel):
    """Publishes by an atomic rename."""

    # Kombu's own classes disagree about the parameter's name.
    def _put(  # type: ignore[override]
        self, queue: str, payload: dict[str, Any], **_: Any
    ) -> None:
        folder = Path(self.data_folder_out)
        name = f"{round(monotonic() * 1000)}_{uuid.uuid4()}"
        aside = folder / f"{name}.partial"
        aside.write_text(dumps(payload), encoding="utf-8")  # type: ignore[no-untyped-call]
        os.replace(aside, folder / f"{name}.{queue}.msg")


class Transport(filesystem.Transport):
    """The transport that names the channel above."""

    Channel = Channel
