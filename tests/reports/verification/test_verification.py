"""Verification of bundles: whatever is changed is found, and named."""

import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rfc8785

from fedaudit.ledger.bundle import LEDGER, NotABundleError, opened_bundle
from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.ledger.statements import SigningKey, SignOff
from fedaudit.reports.later import LaterStatement
from fedaudit.reports.verification.verification import Verification, verify
from tests.ledger.single_entry import digest_of, link
from tests.reports.signed_run import ID, KEY, NAMES, SignedRun, signed_run


def judged(path: Path, *trusted: SigningKey) -> Verification:
    with opened_bundle(path) as evidence:
        return verify(evidence, trusted=[key.public for key in trusted])


def failed(found: Verification) -> dict[str, str]:
    return {check.name: check.detail for check in found.checks if check.outcome == "fail"}


@pytest.fixture
def run() -> SignedRun:
    return signed_run()


def test_the_verdict_hangs_on_the_key(run: SignedRun, tmp_path: Path) -> None:
    path = run.write(tmp_path / "b.zip")
    assert judged(path, KEY).verdict == "valid"
    assert judged(path, SigningKey.generate(), KEY).verdict == "valid"
    for trusted in ((), (SigningKey.generate(),)):
        found = judged(path, *trusted)
        assert found.verdict == "consistent, signer untrusted"
        assert failed(found) == {}
    assert found.signers == [KEY.key_id]


def test_a_run_that_somebody_else_made_up_and_signed_is_not_valid(tmp_path: Path) -> None:
    path = signed_run(SigningKey.generate()).write(tmp_path / "b.zip")
    assert judged(path, KEY).verdict == "consistent, signer untrusted"


def test_the_same_content_has_the_same_bytes(run: SignedRun, tmp_path: Path) -> None:
    first, second = run.write(tmp_path / "a.zip"), run.write(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    assert zipfile.ZipFile(first).testzip() is None


# -- one byte ---------------------------------------------------------------------------------


def rewritten(path: Path, name: str, content: bytes) -> Path:
    """The bundle with another content of one member, its checksum right."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    changed = path.with_name("changed.zip")
    with zipfile.ZipFile(changed, "w") as archive:
        for one, kept in members.items():
            archive.writestr(one, content if one == name else kept)
    return changed


def flips(content: bytes, step: int) -> Iterator[tuple[int, bytes]]:
    """One bit changed in every `step`-th byte, another one in each."""
    for place in range(0, len(content), step):
        yield (
            place,
            (content[:place] + bytes([content[place] ^ (1 << place % 7)]) + content[place + 1 :]),
        )


@pytest.mark.parametrize(
    ("name", "step"),
    [
        (LEDGER, 29),
        ("report.json", 101),
        ("checkpoints.json", 29),
        ("spec.json", 37),
        ("subjects.json", 1),
        ("keys.json", 11),
    ],
)
def test_a_changed_byte_is_found_wherever_it_is(run, tmp_path, name, step):
    path = run.write(tmp_path / "b.zip")
    content = zipfile.ZipFile(path).read(name)
    for place, changed in flips(content, step):
        found = judged(rewritten(path, name, changed), KEY)
        assert found.verdict == "altered", (place, content[place : place + 30])
        assert failed(found)


def test_a_changed_byte_of_the_file_never_passes_for_another_content(run, tmp_path):
    path = run.write(tmp_path / "b.zip")
    content = path.read_bytes()
    members = {name: zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist()}
    changed = tmp_path / "changed.zip"
    for place, flipped in flips(content, 211):
        changed.write_bytes(flipped)
        with suppress(NotABundleError):
            if judged(changed, KEY).verdict == "valid":
                # A time or an attribute in the frame of the zip file, which nobody reads.
                with zipfile.ZipFile(changed) as archive:
                    assert {one: archive.read(one) for one in archive.namelist()} == members, place


# -- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [5, 4, 1, 0])
def test_the_last_rows_deleted_are_named(run: SignedRun, tmp_path: Path, kept: int) -> None:
    del run.rows[kept:]
    found = failed(judged(run.write(tmp_path / "b.zip"), KEY))
    what = "entry 6" if kept == 5 else f"entries {kept + 1} to 6"
    assert found["ledger.entries"].startswith(f"{what} (up to round 6) are missing")
    assert f"{what} are missing" in found["report.entries"]
    assert "ledger.chain" not in found


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_deleted_row_is_named_by_the_next(run: SignedRun, tmp_path: Path, number: int) -> None:
    del run.rows[number]
    found = failed(judged(run.write(tmp_path / "b.zip"), KEY))
    assert f"breaks at round {number + 2}" in found["ledger.chain"]
    assert found["ledger.entries"].startswith("1 of 6 entries")
    assert found["report.rounds"] == f"there is no entry of round {number + 1}"


def test_moved_added_and_repeated_rows_are_found(run: SignedRun, tmp_path: Path) -> None:
    first, second, *rest = run.rows
    for rows, place in (
        ([second, first, *rest], "round 2"),
        ([first, first, second, *rest], "round 1"),
        ([first, second, *rest, rest[-1]], "round 6"),
    ):
        run.rows = rows
        found = failed(judged(run.write(tmp_path / "b.zip"), KEY))
        assert f"breaks at {place}" in found["ledger.chain"]
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
    run: SignedRun, tmp_path: Path, change: Callable[[SignedRun], None], figure: str | None
) -> None:
    change(run)
    # What an attacker without the key can do: all digests and links, recomputed.
    head, encoder = genesis(ID), EntryEncoder(NAMES)
    for number, row in enumerate(run.rows):
        digest = digest_of(encoder, row)
        head = link(head, digest, row.clusters)
        run.rows[number] = replace(row, digest=digest, link=head)
    found = failed(judged(run.write(tmp_path / "b.zip"), KEY))
    assert "something was changed after entry 3" in found["checkpoints.chain"]
    assert "report.chain_head" in found
    assert "ledger.chain" not in found
    if figure is not None:
        assert f"report.leakage_{figure}" in found


def test_a_report_or_a_checkpoint_that_is_missing_is_reported(
    run: SignedRun, tmp_path: Path
) -> None:
    report, checkpoints = run.report, run.checkpoints
    run.report = None
    assert "succeeded" in failed(judged(run.write(tmp_path / "b.zip"), KEY))["report.present"]
    run.report, run.checkpoints = report, checkpoints[:1]
    assert "report.present" in failed(judged(run.write(tmp_path / "b.zip"), KEY))
    run.checkpoints = []
    assert "deleted" in failed(judged(run.write(tmp_path / "b.zip"), KEY))["checkpoints.signatures"]


def test_without_report_the_rows_after_the_newest_checkpoint_are_uncovered(run, tmp_path):
    run.report = None
    del run.checkpoints[1:]
    found = judged(run.write(tmp_path / "b.zip"), KEY)
    assert found.verdict == "consistent, signer untrusted"
    uncovered = {check.name: check.detail for check in found.checks if check.outcome == "unchecked"}
    assert uncovered["ledger.entries"].startswith("entries 4 to 6 came after the newest checkpoint")


def test_a_ledger_cut_off_at_an_older_checkpoint_is_not_valid(run, tmp_path):
    """Rows, report and checkpoints of a run that succeeded are deleted from one round on."""
    run.report = None
    del run.checkpoints[1:], run.rows[3:]
    found = judged(run.write(tmp_path / "b.zip"), KEY)
    assert found.verdict == "consistent, signer untrusted"
    [unknown] = [check for check in found.checks if check.outcome == "unchecked"]
    assert unknown.name == "report.present"
    assert "no signature says how it ended" in unknown.detail


# -- what is no bundle ------------------------------------------------------------------------


def _zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_is_no_bundle_is_refused(run: SignedRun, tmp_path: Path) -> None:
    whole = run.write(tmp_path / "b.zip")
    with zipfile.ZipFile(whole) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    made = tmp_path / "made.zip"
    text = tmp_path / "text"
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
        with (
            pytest.raises(NotABundleError, match=said),
            opened_bundle(path() if callable(path) else path),
        ):
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


def test_an_altered_mechanism_of_a_row_ends_in_a_verdict(run: SignedRun, tmp_path: Path) -> None:
    run.change_row(1, inputs={**run.rows[1].inputs, "noise_multiplier": 0.0})
    assert "round 2" in failed(judged(run.write(tmp_path / "b.zip"), KEY))["ledger.digests"]


@pytest.mark.parametrize("stray", [{"delta": 0.5}, {"adjacency": "client"}, {"accountant": "rdp"}])
def test_what_no_digest_covers_may_not_be_in_a_row(run, tmp_path, stray):
    """Without a report nothing else says what belongs there."""
    run.report = None
    run.change_row(1, inputs={**run.rows[1].inputs, **stray})
    assert "round 2" in failed(judged(run.write(tmp_path / "b.zip"), KEY))["ledger.digests"]


def test_an_altered_spec_in_the_report_ends_in_a_verdict_beside_sign_offs(run, tmp_path):
    path = run.write(tmp_path / "b.zip")
    attacked = LaterStatement(
        experiment_id=ID,
        number=1,
        report_hash="0" * 64,
        ledger_hash="0" * 64,
        basis="repeated",
        asked=[],
        attacks=[{"kind": "membership", "status": "not-done"}],
        asked_by={},
        asked_at="",
        finished_at="",
        code_version="1",
        backend={},
    )
    sign_off = SignOff(
        experiment_id=ID,
        number=1,
        report_hash="0" * 64,
        decision="approved",
        note="",
        role=None,
        concerns=(),
        person="Ada",
        key_id="",
        key_name="",
        by_submitter=None,
        signed_off_at="",
    )
    later, signed = (one.sign_after(None, KEY).as_dict() for one in (attacked, sign_off))
    with opened_bundle(path) as evidence:
        assert evidence.report is not None
        report = {**evidence.report, "spec": {**evidence.report["spec"], "federation": {}}}
        altered = replace(evidence, report=report, later_attacks=[later], sign_offs=[signed])
        found = verify(altered, trusted=[KEY.public])
    assert found.verdict == "altered"
    assert failed(found).keys() >= {"report.signature", "sign_offs.concerns"}


def test_numbers_of_any_size_end_in_a_verdict(run: SignedRun, tmp_path: Path) -> None:
    path = run.write(tmp_path / "b.zip")
    lines = zipfile.ZipFile(path).read(LEDGER).splitlines()
    for name, value in (
        ("round", -1),
        ("round", 2**70),
        ("round", 2**53),
        ("release", 2**64),
        ("subjects", [0, 1, 2**40]),
        ("subjects", [0, 1, -3]),
        ("outcomes", [0, 1, 256]),
        ("digest", ""),
        ("clusters", []),
    ):
        row = {**json.loads(lines[1]), name: value}
        line = json.dumps(row, separators=(",", ":")).encode()
        content = b"\n".join([lines[0], line, *lines[2:], b""])
        assert judged(rewritten(path, LEDGER, content), KEY).verdict == "altered"
    big = float(struct.unpack("<f", b"\0\0\x7f\x7f")[0])
    for name, value in (
        *(("n", value) for value in (-1, 2**70, "2", None, 1.5, 2.0, True, big)),
        *((name, text) for name in ("clip", "radius_floor", "radius") for text in ("1.0", [1.0])),
        ("noise_multiplier", True),
        ("mechanism", None),
        ("guarantee", 1),
    ):
        row = json.loads(lines[1])
        row["inputs"][name] = value
        line = json.dumps(row, separators=(",", ":")).encode()
        content = b"\n".join([lines[0], line, *lines[2:], b""])
        stated = failed(judged(rewritten(path, LEDGER, content), KEY))
        assert "round 2" in stated["ledger.digests"], (name, value)


def test_a_kind_for_the_held_out_is_charged_for_a_report_alone(run, tmp_path):
    """Its one subject is none of the run's, which may have no names at all."""
    columns = ("subjects", "outcomes", "radii", "releases", "clusters")
    one = {name: getattr(run.rows[0], name)[:1] for name in columns}
    row = replace(run.rows[0], subject_kind="validation_client", **one)
    digest = digest_of(EntryEncoder(run.names), row)
    row = replace(row, digest=digest, link=link(genesis(ID), digest, row.clusters))
    run.rows, run.report, run.checkpoints = [row], None, []
    for names in (run.names, []):
        run.names = names
        found = failed(judged(run.write(tmp_path / "b.zip"), KEY))
        assert "round 1" in found["ledger.digests"]


@pytest.mark.parametrize("observer", ["\ud800", "server\nok    ledger.digests", "\x1b[2J"])
def test_texts_of_a_row_are_shown_as_they_can_be_printed(run, tmp_path, observer):
    run.change_row(1, observer=observer)
    stated = failed(judged(run.write(tmp_path / "b.zip"), KEY))["ledger.digests"]
    assert f"(client against {observer!a})" in stated
    assert stated.isprintable()
