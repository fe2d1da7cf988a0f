"""Under secret noise nothing that a report's reader is shown can be tried with guessed entries."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from fedaudit.federations.load import load_federation
from fedaudit.ledger.bundle import bundle_chunks, opened_bundle
from fedaudit.ledger.encoding import SALT_BYTES, EntryEncoder, genesis, ledger_hash, new_salt
from fedaudit.ledger.rows import UnreadableRow
from fedaudit.runs.run import cell_ledger_context, training_subjects
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from models.tables.experiments import Experiment
from tests.api.service import Api
from tests.ledger.single_entry import SingleEntry, digest_of, link
from tests.workers.epsilon_specs import local
from tests.workers.serving import bundle_of, judged_bundle
from workers.context import WorkerContext
from workers.run_unit import run_unit

COHORT = 2
READER = ("experiments:read", "reports:read", "federations:read")


def one_round(noise: str) -> dict[str, Any]:
    """32 clients train, of which two take part in the only round: 496 cohorts."""
    spec = local(noise=noise)
    return {**spec, "training": {**spec["training"], "rounds": 1, "cohort": {"clients": COHORT}}}


def ran(api: Api, served: WorkerContext, spec: dict[str, Any], *, salted: bool = True) -> str:
    """The id of an experiment that has ended; as one that was admitted before there were salts
    unless `salted`."""
    id_ = str(api.submit(spec)["id"])
    if not salted:
        with api.database.write() as session:
            session.execute(update(Experiment).where(Experiment.id == id_).values(ledger_salt=None))
    run_unit(served, api.stored(id_).unit_id)
    assert api.stored(id_).status == "succeeded", api.stored(id_).status_detail
    return id_


def guesses(id_: str, spec: dict[str, Any], salt: bytes | None) -> dict[str, tuple[str, ...]]:
    """By digest, chain head and ledger hash, the cohort whose entry has it: from public figures."""
    parsed = parse_spec(spec)
    cell = Cell(parsed, load_federation(parsed, sources_dir=None))
    context = cell_ledger_context(cell)
    found: dict[str, tuple[str, ...]] = {}
    encoder = EntryEncoder(context.subjects, salt=salt)
    for cohort in combinations(training_subjects(cell, context).tolist(), COHORT):
        subjects, releases = np.array(cohort, np.int32), np.ones(COHORT, np.int32)
        entry = SingleEntry(
            round=1,
            release=0,
            subject_kind=context.subject_kind,
            observer="server",
            inputs=context.inputs,
            subjects=subjects,
            outcomes=np.zeros(COHORT, np.uint8),
            radii=np.full(COHORT, np.nan),
            releases=releases,
            clusters=np.zeros(COHORT, np.int16),
            epsilons=context.epsilons("server", subjects, releases),
        )
        digest = digest_of(encoder, entry)
        hashes = (
            digest.hex(),
            link(genesis(id_), digest, entry.clusters).hex(),
            ledger_hash([(1, 0, "client", "server", digest)]),
        )
        found |= dict.fromkeys(hashes, tuple(context.subjects[one] for one in cohort))
    return found


def shown(api: Api, id_: str, *scopes: str) -> str:
    """All that a key with these scopes is answered of an experiment, headers included, but for
    PDF files, whose text is compressed: they are drawn from the report's page."""
    as_reader = {"Authorization": f"Bearer {api.key_with(*scopes)}"}
    paths = [
        path
        for path, calls in api.get("/openapi.json").json()["paths"].items()
        if "get" in calls
        and "events" not in path
        and not path.endswith("pdf")
        and path.count("{") == path.count("experiment_id")
    ]
    answers = [
        api.client.get(path.replace("{experiment_id}", id_), headers=as_reader) for path in paths
    ]
    assert sum(answer.status_code == 200 for answer in answers) > 8
    events = api.client.get(
        f"/v1/experiments/{id_}/events", headers={**as_reader, "Last-Event-ID": "0"}
    )
    return "\n".join(f"{one.headers}\n{one.text}" for one in [*answers, events])


def participants(api: Api, id_: str) -> tuple[str, ...]:
    lines = api.get(f"/v1/experiments/{id_}/privacy-ledger").json()["items"]
    return tuple(sorted(line["subject"] for line in lines))


def found_in(text: str, tried: dict[str, tuple[str, ...]]) -> set[tuple[str, ...]]:
    return {tuple(sorted(cohort)) for hashed, cohort in tried.items() if hashed in text}


def test_no_reader_of_reports_finds_who_took_part(api: Api, served: WorkerContext) -> None:
    spec = one_round("release")
    id_ = ran(api, served, spec)
    text = shown(api, id_, *READER)
    assert api.get(f"/v1/experiments/{id_}/report.json").json()["integrity"]["ledger_hash"] in text
    assert found_in(text, guesses(id_, spec, None)) == set()
    # With the salt, which the scope of the ledger opens, the same guesses find them.
    page = api.get(f"/v1/experiments/{id_}/privacy-ledger").json()
    salt = bytes.fromhex(page["salt"])
    assert (len(salt), page["reasons"].get("salt")) == (SALT_BYTES, None)
    assert salt.hex() not in text
    assert found_in(text, guesses(id_, spec, salt)) == {participants(api, id_)}


def test_simulated_runs_have_plain_hashes_and_stored_ones_keep_them(api, served, tmp_path):
    """Whose cohort follows from the seed anyway. A release run of before there were salts goes on
    without one, and its bundle verifies as it did."""
    simulated = ran(api, served, one_round("simulation"))
    old = ran(api, served, one_round("release"), salted=False)
    for id_, noise in ((simulated, "simulation"), (old, "release")):
        report = api.get(f"/v1/experiments/{id_}/report.json").text
        assert found_in(report, guesses(id_, one_round(noise), None)) == {participants(api, id_)}
        page = api.get(f"/v1/experiments/{id_}/privacy-ledger").json()
        assert page["salt"] is None
        assert "not keyed" in page["reasons"]["salt"]
        verified = judged_bundle(bundle_of(api, id_, tmp_path), served.signing_key.public)
        assert verified.verdict == "valid"
        assert "ledger.salt" not in {one.name for one in verified.checks}


@pytest.mark.parametrize("changed", ["other", "missing", "added"])
def test_a_bundle_verifies_with_its_own_salt_alone(api, served, tmp_path, changed):
    id_ = ran(api, served, one_round("simulation" if changed == "added" else "release"))
    path = bundle_of(api, id_, tmp_path)
    verified = judged_bundle(path, served.signing_key.public)
    assert verified.verdict == "valid"
    assert (
        verified.ledger_hash
        == api.get(f"/v1/experiments/{id_}/report.json").json()["integrity"]["ledger_hash"]
    )
    with opened_bundle(path) as evidence:
        salt = None if changed == "missing" else new_salt("release")
        rows = [row for row in evidence.rows if not isinstance(row, UnreadableRow)]
        altered = b"".join(bundle_chunks(replace(evidence, salt=salt), rows))
    path.write_bytes(altered)
    found = judged_bundle(path, served.signing_key.public)
    failed = {one.name: one.detail for one in found.checks if one.outcome == "fail"}
    assert found.verdict == "altered"
    assert {"ledger.salt", "ledger.digests"} <= failed.keys()
    assert "salt" in failed["ledger.salt"]
