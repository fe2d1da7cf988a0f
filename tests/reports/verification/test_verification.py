"""Verification of bundles: whatever is changed is found, and named."""

import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rfc8785

from fedaudit.ledger.bundle import LEDGER, NotABundleError, opened_bundle
from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.ledger.statements import SigningKey, SignOff
from fedaudit.reports.verification.verification import Verification, verify
from tests.ledger.single_entry import digest_of, link
from tests.reports.signed_run import ID, KEY, NAMES, SignedRun, later_statement, signed_run


def judged(path: Path, *trusted: SigningKey) -> Verification:
    with opened_bundle(path) as evidence:
        return verify(evidence, trusted=[key.public for key in trusted])


def failed(found: Verification) -> dict[str, str]:
    return {check.name: check.detail for check in found.checks if check.outcome == "fail"}


@pytest.fixture
def run() -> SignedRun:
    return signed_run()


@pytest.fixture
def judge(run: SignedRun, tmp_path: Path) -> Callable[[], Verification]:
    """Judges the run as it now is."""
    return lambda: judged(run.write(tmp_path / "b.zip"), KEY)


def test_the_verdict_hangs_on_the_key(run: SignedRun, tmp_path: Path) -> None:
    path = run.write(tmp_path / "b.zip")
    assert judged(path, KEY).verdict == "valid"
    assert judged(path, SigningKey.generate(), KEY).verdict == "valid"
    for trusted in ((), (SigningKey.generate(),)):
        found = judged(path, *trusted)
        assert found.verdict == "consistent, signer untrusted"
        assert failed(found) == {}
    assert found.signers == [KEY.key_id]
    made_up = signed_run(SigningKey.generate()).write(tmp_path / "made-up.zip")
    assert judged(made_up, KEY).verdict == "consistent, signer untrusted"


def test_the_same_content_has_the_same_bytes(run: SignedRun, tmp_path: Path) -> None:
    first, second = run.write(tmp_path / "a.zip"), run.write(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    assert zipfile.ZipFile(first).testzip() is None


# -- one byte ---------------------------------------------------------------------------------


def members_of(path: Path) -> dict[str, bytes]:
    """What a bundle holds, by name."""
    with zipfile.ZipFile(path) as archive:
        return {one: archive.read(one) for one in archive.namelist()}


def rewritten(path: Path, name: str, content: bytes) -> Path:
    """The bundle with another content of one member, its checksum right."""
    return _zip(path.with_name("changed.zip"), {**members_of(path), name: content})


def flips(content: bytes, step: int) -> Iterator[tuple[int, bytes]]:
    """One bit changed in every `step`-th byte, another one in each."""
    for place in range(0, len(content), step):
        flipped = bytes([content[place] ^ (1 << place % 7)])
        yield place, content[:place] + flipped + content[place + 1 :]


STEPS = {LEDGER: 59, "report.json": 211, "checkpoints.json": 59, "spec.json": 37}


@pytest.mark.parametrize(
    ("name", "step"), [*STEPS.items(), ("subjects.json", 3), ("keys.json", 11)]
)
def test_a_changed_byte_is_found_wherever_it_is(run, tmp_path, name, step):
    path = run.write(tmp_path / "b.zip")
    content = members_of(path)[name]
    for place, changed in flips(content, step):
        found = judged(rewritten(path, name, changed), KEY)
        assert found.verdict == "altered", (place, content[place : place + 30])
        assert failed(found)


def test_a_changed_byte_of_the_file_never_passes_for_another_content(run, tmp_path):
    path = run.write(tmp_path / "b.zip")
    content = path.read_bytes()
    members = members_of(path)
    changed = tmp_path / "changed.zip"
    for place, flipped in flips(content, 211):
        changed.write_bytes(flipped)
        with suppress(NotABundleError):
            if judged(changed, KEY).verdict == "valid":
                # A time or an attribute in the frame of the zip file, which nobody reads.
                assert members_of(changed) == members, place


# -- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "missing"), [(5, "entry 6"), (4, "entries 5 to 6"), (0, "entries 1 to 6")]
)
def test_the_last_rows_deleted_are_named(run, judge, kept, missing) -> None:
    del run.rows[kept:]
    found = failed(judge())
    assert found["ledger.entries"].startswith(f"{missing} (up to round 6) are missing")
    assert f"{missing} are missing" in found["report.entries"]
    assert "ledger.chain" not in found


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_deleted_row_is_named_by_the_next(run, judge, number: int) -> None:
    del run.rows[number]
    found = failed(judge())
    assert f"breaks at round {number + 2}" in found["ledger.chain"]
    assert found["ledger.entries"].startswith("1 of 6 entries")
    assert found["report.rounds"] == f"there is no entry of round {number + 1}"


@pytest.mark.parametrize(
    ("order", "place"),
    [([1, 0, 2, 3, 4, 5], 2), ([0, 0, 1, 2, 3, 4, 5], 1), ([0, 1, 2, 3, 4, 5, 5], 6)],
    ids=["moved", "twice", "added"],
)
def test_moved_added_and_repeated_rows_are_found(run, judge, order, place) -> None:
    run.rows = [run.rows[at] for at in order]
    found = failed(judge())
    assert f"breaks at round {place}" in found["ledger.chain"]
    assert "ledger.order" in found


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        (lambda run: run.change_row(4, radii=np.array([9.0, np.nan, 0.5])), None),
        (lambda run: run.change_row(5, clusters=np.array([1, -1, 0], np.int16)), "by_cluster"),
        (lambda run: run.change_row(4, outcomes=np.array([1, 1, 0], np.int16)), "max"),
    ],
)
def test_a_ledger_that_was_written_anew_contradicts_checkpoints_and_report(
    run, judge, change: Callable[[SignedRun], None], figure: str | None
) -> None:
    change(run)
    # What an attacker without the key can do: all digests and links, recomputed.
    head, encoder = genesis(ID), EntryEncoder(NAMES)
    for number, row in enumerate(run.rows):
        digest = digest_of(encoder, row)
        head = link(head, digest, row.clusters)
        run.rows[number] = replace(row, digest=digest, link=head)
    found = failed(judge())
    assert "something was changed after entry 3" in found["checkpoints.chain"]
    assert "report.chain_head" in found
    assert "ledger.chain" not in found
    if figure is not None:
        assert f"report.leakage_{figure}" in found


def test_a_report_or_a_checkpoint_that_is_missing_is_reported(run, judge) -> None:
    report, checkpoints = run.report, run.checkpoints
    run.report = None
    assert "succeeded" in failed(judge())["report.present"]
    run.report, run.checkpoints = report, checkpoints[:1]
    assert "report.present" in failed(judge())
    run.checkpoints = []
    assert "deleted" in failed(judge())["checkpoints.signatures"]


@pytest.mark.parametrize(
    ("rows", "check", "said"),
    [
        (6, "ledger.entries", "entries 4 to 6 came after the newest checkpoint"),
        # Of a run that succeeded everything is deleted from one round on.
        (3, "report.present", "no signature says how it ended"),
    ],
)
def test_what_the_newest_checkpoint_does_not_cover_is_not_valid(run, judge, rows, check, said):
    run.report = None
    del run.checkpoints[1:], run.rows[rows:]
    found = judge()
    assert found.verdict == "consistent, signer untrusted"
    unchecked = {one.name: one.detail for one in found.checks if one.outcome == "unchecked"}
    assert said in unchecked[check]


# -- what is no bundle ------------------------------------------------------------------------


def _zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_is_no_bundle_is_refused(run: SignedRun, tmp_path: Path) -> None:
    members = members_of(run.write(tmp_path / "b.zip"))
    made, text = tmp_path / "made.zip", tmp_path / "text"
    text.write_text("no zip")
    other = rfc8785.dumps({"bundle_version": 2, "experiment_id": "e"})
    for path, said in (
        (tmp_path / "absent", "cannot be read"),
        (text, "no zip file"),
        (lambda: _zip(made, {**members, "../../etc/passwd": b""}), "files of a bundle"),
        (lambda: _zip(made, {"bundle.json": members["bundle.json"]}), "files of a bundle"),
        (lambda: _zip(made, members, zipfile.ZIP_DEFLATED), "store it plainly"),
        (lambda: _zip(made, {**members, "bundle.json": other}), "version 2"),
        (lambda: _zip(made, {**members, "bundle.json": b"[" * 3000}), "another form"),
        (lambda: _zip(made, {**members, "bundle.json": b" " * 5000}), "more than any"),
    ):
        bundle = path() if callable(path) else path
        with pytest.raises(NotABundleError, match=said), opened_bundle(bundle):
            pass


@pytest.mark.parametrize("value", [b"", b"[]", b"null", b"3", b'{"a":1}', b"[" * 100_000, b"\xff"])
@pytest.mark.parametrize(
    "name", ["report.json", "spec.json", "subjects.json", "checkpoints.json", "keys.json", LEDGER]
)
def test_parts_of_any_form_end_in_a_verdict(run, tmp_path, name, value):
    path = rewritten(run.write(tmp_path / "b.zip"), name, value)
    found = judged(path, KEY)
    if (name, value) == ("keys.json", b"[]"):
        # The trusted key is at hand.
        assert found.verdict == "valid"
        assert judged(path).verdict == "altered"
    else:
        assert found.verdict == "altered"


@pytest.mark.parametrize(
    "stray",
    [{"noise_multiplier": 0.0}, {"delta": 0.5}, {"adjacency": "client"}, {"accountant": "rdp"}],
    ids=str,
)
def test_an_altered_mechanism_of_a_row_is_named(run, judge, stray):
    """Without a report nothing else says what belongs where no digest covers it."""
    run.report = None
    run.change_row(1, inputs={**run.rows[1].inputs, **stray})
    assert "round 2" in failed(judge())["ledger.digests"]


def test_an_altered_spec_in_the_report_ends_in_a_verdict_beside_sign_offs(run, tmp_path):
    path = run.write(tmp_path / "b.zip")
    attacked = later_statement({"kind": "membership", "status": "not-done"})
    empty = dict.fromkeys(("note", "person", "key_id", "key_name", "signed_off_at"), "")
    unstated: dict[str, Any] = {"role": None, "concerns": (), "by_submitter": None, **empty}
    of = {"experiment_id": ID, "number": 1, "report_hash": "0" * 64, "decision": "approved"}
    sign_off = SignOff(**of, **unstated)
    signed = sign_off.sign_after(None, KEY).as_dict()
    with opened_bundle(path) as evidence:
        assert evidence.report is not None
        report = {**evidence.report, "spec": {**evidence.report["spec"], "federation": {}}}
        altered = replace(evidence, report=report, later_attacks=[attacked], sign_offs=[signed])
        found = verify(altered, trusted=[KEY.public])
    assert found.verdict == "altered"
    assert failed(found).keys() >= {"report.signature", "sign_offs.concerns"}


def test_numbers_of_any_size_end_in_a_verdict(run: SignedRun, tmp_path: Path) -> None:
    path = run.write(tmp_path / "b.zip")
    lines = members_of(path)[LEDGER].splitlines()

    def changed(**columns: Any) -> Verification:
        line = json.dumps(json.loads(lines[1]) | columns, separators=(",", ":")).encode()
        return judged(rewritten(path, LEDGER, b"\n".join([lines[0], line, *lines[2:], b""])), KEY)

    for name, value in (
        *(("round", value) for value in (-1, 2**70, 2**53)),
        ("release", 2**64),
        *(("subjects", [0, 1, value]) for value in (2**40, -3)),
        ("outcomes", [0, 1, 256]),
        ("digest", ""),
        ("clusters", []),
    ):
        assert changed(**{name: value}).verdict == "altered", (name, value)
    big = float(struct.unpack("<f", b"\0\0\x7f\x7f")[0])
    for name, value in (
        *(("n", value) for value in (-1, 2**70, "2", None, 1.5, 2.0, True, big)),
        *((name, text) for name in ("clip", "radius_floor", "radius") for text in ("1.0", [1.0])),
        ("noise_multiplier", True),
        ("mechanism", None),
        ("guarantee", 1),
    ):
        stated = failed(changed(inputs={**json.loads(lines[1])["inputs"], name: value}))
        assert "round 2" in stated["ledger.digests"], (name, value)


def test_a_kind_for_the_held_out_is_charged_for_a_report_alone(run, judge):
    """Its one subject is none of the run's, which may have no names at all."""
    columns = ("subjects", "outcomes", "radii", "releases", "clusters")
    one = {name: getattr(run.rows[0], name)[:1] for name in columns}
    row = replace(run.rows[0], subject_kind="validation_client", **one)
    digest = digest_of(EntryEncoder(run.names), row)
    row = replace(row, digest=digest, link=link(genesis(ID), digest, row.clusters))
    run.rows, run.report, run.checkpoints = [row], None, []
    for names in (run.names, []):
        run.names = names
        found = failed(judge())
        assert "round 1" in found["ledger.digests"]


@pytest.mark.parametrize("observer", ["\ud800", "server\nok    ledger.digests", "\x1b[2J"])
def test_texts_of_a_row_are_shown_as_they_can_be_printed(run, judge, observer):
    run.change_row(1, observer=observer)
    stated = failed(judge())["ledger.digests"]
    assert f"(client against {observer!a})" in stated
    assert stated.isprintable()
