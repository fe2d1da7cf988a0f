"""The producer: messages reach the queue of their device, and a dead broker is noticed quickly."""

import json
import socket
from pathlib import Path

import pytest

from infrastructure.queue import Queue, QueueUnavailableError, celery_app, queue_name
from infrastructure.settings import Settings


def settings_with(broker_url: str, folder: Path) -> Settings:
    return Settings(
        data_dir=folder, database_url=f"sqlite:///{folder}/fedaudit.db", broker_url=broker_url
    )


@pytest.fixture(params=["folder", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Each kind of broker."""
    if request.param == "folder":
        return settings_with(f"filesystem://{tmp_path}/queue", tmp_path)
    return settings_with(request.getfixturevalue("broker_url"), tmp_path)


def test_units_wait_in_the_queue_of_their_device(settings: Settings) -> None:
    queue = Queue(settings)
    for device in ("auto", "cpu", "cuda", "cpu"):
        queue.publish_unit(f"unit-{device}", device)
    with celery_app(settings, producer=True).connection_for_read() as connection:
        channel = connection.default_channel
        for device, expected in (("auto", 1), ("cpu", 2), ("cuda", 1)):
            for _ in range(expected):
                message = channel.basic_get(queue_name(device), no_ack=True)
                assert message.headers["task"] == "fedaudit.run_unit"
                assert json.loads(message.body)[0] == [f"unit-{device}"]
            assert channel.basic_get(queue_name(device), no_ack=True) is None
    queue.close()


def test_a_broker_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"redis://127.0.0.1:{deaf.getsockname()[1]}/0"
        queue = Queue(settings_with(address, tmp_path))
        with pytest.raises(QueueUnavailableError, match="Timeout"):
            queue.publish_unit("one", "auto")


def test_a_queue_comes_back_with_its_broker(broker_url, tmp_path, monkeypatch):
    queue = Queue(settings_with(broker_url, tmp_path))
    queue.publish_unit("one", "auto")
    with monkeypatch.context() as broken:

        def refuse(*_: object) -> None:
            raise ConnectionRefusedError("down")

        broken.setattr(socket.socket, "sendall", refuse)
        with pytest.raises(QueueUnavailableError):
            queue.publish_unit("two", "auto")
    queue.publish_unit("three", "auto")
