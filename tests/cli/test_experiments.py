"""`list`, `show`, `cancel`, `retry` and `budget`, and how `submit` ends, against a real service."""

import json
import os
import subprocess
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path

import pytest

from fedaudit.cli.output import CommandError, whole_file, write_below
from fedaudit.number_text import bound_text, figure_text
from fedaudit.reports.sections.part import PART_TITLES, answer_words_of
from tests.cli.service import SCRIPT


@pytest.fixture
def waited(call, small_spec):
    """Submits a variant of the small spec and waits; the same name runs once."""

    def submit(name, **parts):
        spec = {**small_spec, "gates": [], **parts, "name": name}
        done = call("submit", "-", "--wait", "--idempotency-key", name, stdin=json.dumps(spec))
        assert done.returncode == 0, done.stderr
        return done

    return submit


@pytest.fixture
def protected(waited):
    """The end of a run with a leakage, as `submit --wait` prints it, and its id."""
    done = waited("protected [by noise]")
    return done, done.stdout.split()[0]


@pytest.fixture
def endless(call, small_spec):
    """The id of an experiment that is cancelled."""
    spec = {**small_spec, "name": "endless"}
    spec["training"] = {**spec["training"], "rounds": 100_000}
    found = call("submit", "-", "--json", "--idempotency-key", "e", stdin=json.dumps(spec))
    return json.loads(found.stdout)["id"]


def test_submit_ends_with_the_verdict_and_a_link(call, protected, service, command):
    done, id_ = protected
    report = json.loads(call("report", id_).stdout)
    _, *verdict, link = done.stdout.splitlines()
    assert verdict[::2] == list(PART_TITLES.values())
    assert " ".join(map(str.strip, verdict[1::2])) == report["verdict"]
    assert link == f"report: {service.url}/experiments/{id_}/report"
    assert call("watch", id_).stdout == done.stdout
    made = command(
        *("keys", "create", "--scope", "experiments:read", "--json"),
        *("--project", service.project, "--data-dir", service.data_dir),
    )
    reader = json.loads(made.stdout)["key"]
    blind = call("watch", id_, FEDAUDIT_API_KEY=reader)
    assert (blind.returncode, len(blind.stdout.splitlines())) == (0, 2)
    assert link in blind.stdout
    assert "may not read reports" in blind.stderr


def test_a_list_for_people_fits_their_terminal(call, protected, waited):
    _, id_ = protected
    waited("unprotected", privacy={"mechanism": "none"})
    for columns in (80, 200):
        shown = call("list", COLUMNS=str(columns)).stdout
        assert max(map(len, shown.splitlines())) <= columns
        assert id_ in shown
        assert "protected [by noise]" in shown
        assert "leakage" in shown
        assert "unbounded" in shown


def test_one_for_people_begins_with_its_answer(call, protected):
    _, id_ = protected
    one = json.loads(call("show", id_, "--json").stdout)
    first, *others = call("show", id_).stdout.splitlines()
    assert first.startswith(f"answer              {answer_words_of(one)}: ")
    assert one["answer"]["reasons"][0]["text"] in first
    assert len(others) < 20
    shown = {line[:20].rstrip(): line[20:] for line in others}
    cost = f"leakage {bound_text(one['figures']['leakage_max'])}"
    noise = one["spec"]["privacy"]["noise"]
    assert shown["privacy cost"] == f"{cost}{', not in force' if noise == 'simulation' else ''}"
    assert shown["result"].endswith(figure_text(one["figures"]["validation_loss"]))
    assert (shown["status"], shown["id"]) == ("succeeded", id_)


def test_lists_are_filtered_as_over_http(call, protected):
    _, id_ = protected
    asked = ("--status", "succeeded", "--mechanism", "laplace-l2", "--name", "protected [by noise]")
    found = json.loads(call("list", *asked, "--json").stdout)
    assert [one["id"] for one in found] == [id_]
    nothing = call("list", "--tag", "nobody")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no experiment fits" in nothing.stderr
    assert "more experiments than the 1" in call("list", "--most", "1").stderr
    wrong = call("api", "GET", "experiments?beauty[lte]=1&charm[lte]=1")
    assert wrong.returncode == 2
    for name in ("beauty", "charm"):
        assert wrong.stderr.count(name) == 1  # each fault once


def test_cancel_and_retry(call, endless):
    assert endless in call("cancel", endless).stderr
    watched = call("watch", endless)
    assert watched.returncode == 1
    assert "the experiment was cancelled (cancelled-by-caller)" in watched.stderr
    assert "it is cancelled" in call("report", endless).stderr
    shown = call("show", endless).stdout
    assert shown.startswith("status              cancelled: cancelled-by-caller\n")
    assert f"/experiments/{endless}\n" in shown
    assert call("cancel", endless).returncode == 0  # once more does no harm
    again = json.loads(call("retry", endless, "--json").stdout)
    assert again["retry_of"] == endless
    assert json.loads(call("cancel", again["id"], "--json").stdout)["id"] == again["id"]
    listed = json.loads(call("list", "--name", "endless", "--json").stdout)
    assert [one["id"] for one in listed] == [again["id"], endless]


def test_budgets_are_for_release_unless_asked_otherwise(call, protected):
    federation = json.loads(call("show", protected[1], "--json").stdout)["federation_id"]
    done = call("budget", federation, "--set", "leakage=40", "--json")
    assert done.returncode == 0, done.stderr
    totals = {one["book"]: one["total"] for one in json.loads(done.stdout)}
    assert totals == {"release": 40, "simulation": None}
    assert "40 of 40" in call("budget", federation).stdout
    epsilon = ("--delta", "1e-5", "--adjacency", "replace-one", "--observer", "server")
    assert call("budget", federation, "--set", "epsilon=3", *epsilon).returncode == 0
    other = ("--delta", "1e-6", *epsilon[2:])
    assert call("budget", federation, "--set", "epsilon=7", *other).returncode == 0
    shown = call("budget", federation).stdout
    for total in ("3 of 3", "7 of 7"):
        assert total in shown, "each budget has a title that no other one has"
    for setting in (("leakage=none",), ("epsilon=none", *epsilon), ("epsilon=none", *other)):
        assert call("budget", federation, "--set", *setting).returncode == 0
    simulated = ("--set", "leakage=4000", "--noise", "simulation", "--json")
    totals = {
        one["book"]: one["total"]
        for one in json.loads(call("budget", federation, *simulated).stdout)
    }
    assert totals["simulation"] == 4000


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
    done = command("budget", "some-id", *options, env=nowhere)
    assert (done.returncode, named in done.stderr) == (2, True)


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_said_and_loses_no_report(command, tmp_path, small_spec) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").symlink_to("/dev/full")
    done = command("run", "-", "--json", "--out", "out", stdin=json.dumps(small_spec))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "cannot write out/report.json: No space left on device" in done.stderr
    assert json.loads(done.stdout)["experiment"]["status"] == "succeeded"
    (tmp_path / "spec.json").write_text(json.dumps(small_spec), encoding="utf-8")
    with Path("/dev/full").open("wb") as full:
        lost = subprocess.run(
            [SCRIPT, "run", "spec.json", "--json", "--out", "kept"],
            cwd=tmp_path,
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert lost.returncode == 2
    assert b"cannot use standard output: No space left on device" in lost.stderr
    assert (tmp_path / "kept" / "report.json").is_file()
