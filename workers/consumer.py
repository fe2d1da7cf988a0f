"""Celery's consumer, extended to report on each turn of its loop that it is listening."""

from typing import Any

from celery.worker.consumer import Consumer

from workers.heartbeat import Heartbeat

_BEAT_SECONDS = 2.0


def consumer_with(heartbeat: Heartbeat) -> type[Consumer]:
    """The class of a consumer that gives signs of life only while it is listening."""

    class _Beating(Consumer):  # type: ignore[misc]  # celery has no types
        # Redis: kombu's event loop, whose timers stop when the connection is lost. A loop that
        # watches no socket, or may not fetch, receives nothing.
        def register_with_event_loop(self, hub: Any) -> None:
            super().register_with_event_loop(hub)
            hub.call_repeatedly(_BEAT_SECONDS, self._beat_where_heard, hub)

        # A folder: Celery's own loop, which calls this on each turn.
        def perform_pending_operations(self) -> None:
            if self.hub is None and self.connection:
                heartbeat.beat()
            super().perform_pending_operations()

        def _beat_where_heard(self, hub: Any) -> None:
            channel = self.task_consumer and self.task_consumer.channel
            if channel and hub.readers and channel.qos.can_consume():
                heartbeat.beat()

    return _Beating
