"""Logs: one JSON object a line, ours and the libraries', on standard error."""

import json
import logging

import httpx
import pytest
import structlog

from infrastructure.logs import configure_logs


@pytest.fixture(autouse=True)
def _restore_logging(restored_logs: None) -> None:
    """Whatever a test here configures ends with it."""


def test_lines_carry_their_context(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    structlog.get_logger().bind(experiment_id="e1", fence=3).info("flushed", rounds=7)
    logging.getLogger("some.library").warning("odd: %s", "thing")
    ours, theirs = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["experiment_id"], ours["fence"]) == ("flushed", "e1", 3)
    assert (theirs["event"], theirs["level"]) == ("odd: thing", "warning")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_exceptions_say_where_and_quote_no_cell(capsys, log_format):
    configure_logs(log_format)
    cell = "Mrs Jones, 02134"
    for logger in (structlog.get_logger(), logging.getLogger("some.library")):
        try:
            try:
                float(cell)
            except ValueError as error:
                raise RuntimeError(f"row 3: {error}") from error
        except RuntimeError:
            logger.exception("failed")
    said = capsys.readouterr().err
    assert min(said.count("RuntimeError"), said.count("ValueError")) >= 2
    assert "test_logs.py" in said
    assert "Jones" not in said


def test_exceptions_of_the_machine_keep_their_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        structlog.get_logger().exception("failed")
    assert "No space left on device" in json.loads(capsys.readouterr().err)["exception"]


def test_requests_to_webhooks_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(204))) as client:
        client.post("https://hooks.example.org/T0/secret?token=hunter2")
    assert capsys.readouterr().err == ""
