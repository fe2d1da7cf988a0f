"""Celery's filesystem transport, with messages that appear whole or not at all.

The stock transport writes a message under its final name, so that a reader may take it half
written; here it is written aside and renamed.
"""

import os
import uuid
from pathlib import Path
from time import monotonic
from typing import Any

from kombu.transport import filesystem
from kombu.utils.json import dumps


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
