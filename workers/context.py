"""What a worker needs for every unit."""

import os
import socket
from dataclasses import dataclass
from functools import cached_property

from celery.worker import state

from fedaudit.federations.reading.source_files import DataRoom
from fedaudit.ledger.signatures import SigningKey
from infrastructure.queue import Queue
from infrastructure.settings import Settings
from infrastructure.storage import Storage
from models.database import Database
from workers.heartbeat import Heartbeat
from workers.proof.signing import SigningKeyFile


@dataclass(frozen=True)
class WorkerContext:
    """The resources with which a worker runs units."""

    settings: Settings
    database: Database
    queue: Queue
    device: str
    """`cpu` or `cuda:N`."""

    @property
    def room(self) -> DataRoom:
        """What clients' data may take of this machine."""
        settings = self.settings
        return DataRoom(
            memory_bytes=settings.max_data_memory_bytes,
            maps_dir=settings.maps_dir,
            maps_bytes=settings.max_mapped_bytes,
        )

    @cached_property
    def storage(self) -> Storage:
        """Where uploaded files and record tables are kept."""
        return Storage(self.settings.storage_url)

    @property
    def signing_key(self) -> SigningKey:
        """The signing key, as its file has it now; the process exits with a message where there
        is no key at first."""
        return self._key_file.current()

    @cached_property
    def _key_file(self) -> SigningKeyFile:
        return SigningKeyFile(self.settings)

    @cached_property
    def heartbeat(self) -> Heartbeat:
        """The sign of life that the health check looks for."""
        return Heartbeat(self.settings)

    @property
    def device_kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def name(self) -> str:
        """The holder of a lease, for operators who look at the units."""
        return f"{socket.gethostname()}:{os.getpid()}:{self.device}"

    def stopping(self) -> bool:
        """Whether a signal asked this worker to stop after the work in hand."""
        return state.should_stop is not None or state.should_terminate is not None
