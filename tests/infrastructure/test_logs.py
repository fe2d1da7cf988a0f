"""Logs: one JSON object a line, ours and the libraries', on standard error."""

import json
import logging

import pytest
import structlog

from infrastructure.logs import configure_logs


@pytest.fixture(autouse=True)
def _restore_logging() -> object:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers, root.level = before[0], before[1]
    structlog.reset_defaults()


def test_lines_carry_their_context(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    structlog.get_logger().bind(experiment_id="e1", fence=3).info("flushed", rounds=7)
    logging.getLogger("some.library").warning("odd: %s", "thing")
    ours, theirs = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["experiment_id"], ours["fence"]) == ("flushed", "e1", 3)
    assert (theirs["event"], theirs["level"]) == ("odd: thing", "warning")


def test_routine_messages_of_celery_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("console")
    logging.getLogger("celery.worker").info("mingle: searching for neighbors")
    assert capsys.readouterr().err == ""


def test_exceptions_keep_their_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        structlog.get_logger().exception("failed")
    line = json.loads(capsys.readouterr().err)
    assert "RuntimeError: boom" in line["exception"]
