"""`list`, `show`, `cancel`, `retry` and `budget`, and how `submit` ends, against a real service."""

import json
import os
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path

import pytest

from fedaudit.cli.output import CommandError, whole_file, write_below
from fedaudit.number_text import bound_text, figure_text
from fedaudit.reports.sections.part import PART_TITLES, answer_words_of
from tests.cli.conftest import assert_refused


@pytest.fixture
def waited(said, small_spec):
    """Submits a variant of the small spec and waits; the same name runs once."""

    def submit(name, **parts):
        spec = {**small_spec, "gates": [], **parts, "name": name}
        return said("submit", "-", "--wait", "--idempotency-key", name, stdin=json.dumps(spec))

    return submit


@pytest.fixture
def protected(waited):
    """The end of a run with a leakage, as `submit --wait` prints it, and its id."""
    text = waited("protected [by noise]")
    return text, text.split()[0]


def test_submit_ends_with_the_verdict_and_a_link(call, said, json_of, protected, service):
    text, id_ = protected
    report = json_of("report", id_)
    _, *verdict, link = text.splitlines()
    assert verdict[::2] == list(PART_TITLES.values())
    assert " ".join(map(str.strip, verdict[1::2])) == report["verdict"]
    assert link == f"report: {service.url}/experiments/{id_}/report"
    assert said("watch", id_) == text
    blind = call("watch", id_, FEDAUDIT_API_KEY=service.key_with("experiments:read"))
    assert (blind.returncode, len(blind.stdout.splitlines())) == (0, 2)
    assert link in blind.stdout
    assert "may not read reports" in blind.stderr


def test_a_list_for_people_fits_their_terminal(said, protected, waited):
    waited("unprotected", privacy={"mechanism": "none"})
    for columns in (80, 200):
        shown = said("list", COLUMNS=str(columns))
        assert max(map(len, shown.splitlines())) <= columns
        for word in (protected[1], "protected [by noise]", "leakage", "unbounded"):
            assert word in shown


def test_one_for_people_begins_with_its_answer(said, json_of, protected):
    _, id_ = protected
    one = json_of("show", id_, "--json")
    first, *others = said("show", id_).splitlines()
    assert first.startswith(f"answer              {answer_words_of(one)}: ")
    assert one["answer"]["reasons"][0]["text"] in first
    assert len(others) < 20
    shown = {line[:20].rstrip(): line[20:] for line in others}
    cost = f"leakage {bound_text(one['figures']['leakage_max'])}"
    noise = one["spec"]["privacy"]["noise"]
    assert shown["privacy cost"] == f"{cost}{', not in force' if noise == 'simulation' else ''}"
    assert shown["result"].endswith(figure_text(one["figures"]["validation_loss"]))
    assert (shown["status"], shown["id"]) == ("succeeded", id_)


def test_lists_are_filtered_as_over_http(call, json_of, protected):
    asked = ("--status", "succeeded", "--mechanism", "laplace-l2", "--name", "protected [by noise]")
    assert [one["id"] for one in json_of("list", *asked, "--json")] == [protected[1]]
    nothing = call("list", "--tag", "nobody")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no experiment fits" in nothing.stderr
    assert "more experiments than the 1" in call("list", "--most", "1").stderr
    assert call("list", "--most", "9" * 20).returncode == 2
    wrong = call("api", "GET", "experiments?beauty[lte]=1&charm[lte]=1")
    assert wrong.returncode == 2
    for name in ("beauty", "charm"):
        assert wrong.stderr.count(name) == 1  # each fault once


def test_cancel_and_retry(call, said, json_of, small_spec):
    spec = {**small_spec, "name": "endless"}
    spec["training"] = {**spec["training"], "rounds": 100_000}
    endless = json_of("submit", "-", "--json", stdin=json.dumps(spec))["id"]
    assert endless in call("cancel", endless).stderr
    watched = call("watch", endless)
    assert_refused(watched, "the experiment was cancelled (cancelled-by-caller)", code=1)
    assert "it is cancelled" in call("report", endless).stderr
    shown = said("show", endless)
    assert shown.startswith("status              cancelled: cancelled-by-caller\n")
    assert f"/experiments/{endless}\n" in shown
    said("cancel", endless)  # once more does no harm
    again = json_of("retry", endless, "--json")
    assert again["retry_of"] == endless
    assert json_of("cancel", again["id"], "--json")["id"] == again["id"]
    listed = json_of("list", "--name", "endless", "--json")
    assert [one["id"] for one in listed] == [again["id"], endless]


def test_budgets_are_for_release_unless_asked_otherwise(said, json_of, protected):
    budget = ("budget", json_of("show", protected[1], "--json")["federation_id"])

    def totals(*setting):
        return {one["book"]: one["total"] for one in json_of(*budget, "--set", *setting, "--json")}

    assert totals("leakage=40") == {"release": 40, "simulation": None}
    assert "40 of 40" in said(*budget)
    epsilon = ("--delta", "1e-5", "--adjacency", "replace-one", "--observer", "server")
    other = ("--delta", "1e-6", *epsilon[2:])
    said(*budget, "--set", "epsilon=3", *epsilon)
    said(*budget, "--set", "epsilon=7", *other)
    shown = said(*budget)
    for total in ("3 of 3", "7 of 7"):
        assert total in shown, "each budget has a title that no other one has"
    assert shown.count("laplace-l2 is not counted: its noise was simulated from its seed") == 1
    for setting in (("leakage=none",), ("epsilon=none", *epsilon), ("epsilon=none", *other)):
        said(*budget, "--set", *setting)
    assert totals("leakage=4000", "--noise", "simulation")["simulation"] == 4000


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--set", "leakage"), "--set: '' is no number"),
        (("--set", "leakage=3", "--radius", "far"), "--radius: 'far' is no number"),
        (("--unit-key", "row"), "--unit-key goes with --set"),
    ],
)
def test_what_is_no_budget_is_named(command, options, named):
    nowhere = {"FEDAUDIT_URL": "http://127.0.0.1:1", "FEDAUDIT_API_KEY": "key"}
    assert_refused(command("budget", "some-id", *options, env=nowhere), named)


def test_what_is_no_file_is_written_through(tmp_path: Path) -> None:
    pipe, file, link = (tmp_path / name for name in ("pipe", "file", "link"))
    os.mkfifo(pipe)
    link.symlink_to(file)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for out in (pipe, link):
        with whole_file(out) as written:
            written.write(b"bundle")
    assert os.read(reader, 100) == file.read_bytes() == b"bundle"
    os.close(reader)
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_a_file_that_cannot_be_written_again_keeps_its_content(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError(ENOSPC, "No space left on device")

    assert write_below(tmp_path, "a/found.json", [b"who", b"le"]) == "a/found.json"
    with pytest.raises(CommandError, match=r"found\.json: No space left"):
        write_below(tmp_path, "a/found.json", pieces())
    assert [(one.name, one.read_bytes()) for one in (tmp_path / "a").iterdir()] == [
        ("found.json", b"whole")
    ]
