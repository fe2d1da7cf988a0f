"""`fedaudit verify` and the keys, at the front door."""

import json
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.api.ledgers.trainings import LOCAL
from tests.cli.conftest import assert_refused
from tests.cli.service import clean_environment
from tests.house import ROOT
from tests.processes import completed
from tests.waiting import wait_until

UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def bundle(call, json_of, small_spec, tmp_path):
    """A finished experiment's id and its bundle; the experiment runs once."""
    once = ("--wait", "--json", "--idempotency-key", "verified")
    identifier = json_of("submit", "-", *once, stdin=yaml.safe_dump(small_spec))["id"]
    path = tmp_path / "bundle.zip"
    fetched = call("verify", identifier, "--out", path)
    assert_refused(fetched, "a key that comes with the evidence proves nothing", code=3)
    return identifier, path


def test_the_first_commands_of_its_page_work(bundle, service, tmp_path):
    """With the data in the folder of `fedaudit up` without options."""
    folder = tmp_path / "home/.local/share"
    folder.mkdir(parents=True)
    (folder / "fedaudit").symlink_to(service.data_dir)
    page = (ROOT / "docs/verification.md").read_text()
    block = page.split("```sh\n")[1].split("```")[0]
    environment = clean_environment(**service.environment, HOME=str(tmp_path / "home"))
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = completed(["bash", "-uc", block.replace("ID", bundle[0])], env=environment, cwd=tmp_path)
    assert (done.returncode, "valid: experiment" in done.stdout) == (0, True), done.stderr


@pytest.fixture
def trusted(service):
    """The option that names the service's key."""
    return "--public-key", service.data_dir / "signing-key.pem.pub"


def test_a_sign_off_is_signed_by_the_service_and_in_the_bundle(
    call, said, json_of, service, small_spec, trusted, tmp_path
):
    spec = {**small_spec, "name": "signed-off"}
    id_ = json_of("submit", "-", "--wait", "--json", stdin=yaml.safe_dump(spec))["id"]
    made = said(
        *("keys", "create", "--project", service.project, "--scopes", "reports:read,reports:sign"),
        *("--person", "Ada Lovelace", "--person-role", "officer", "--data-dir", service.data_dir),
    )
    ada = {"FEDAUDIT_API_KEY": made.strip()}
    approve = ("sign-off", id_, "--decision", "approved")
    assert_refused(call(*approve, **ada), "guarantee is not in force")
    stated = "sign-off 1: approved by Ada Lovelace, officer"
    assert stated in said(*approve, "--note", "a rehearsal", **ada)
    listed = ("api", "GET", f"experiments/{id_}/sign-offs")
    signed = lambda: json_of(*listed, **ada)["items"][0]["envelope"]  # noqa: E731
    wait_until(signed, "the sweeper to sign it", pause=0.5)
    call("verify", id_, "--out", tmp_path / "bundle.zip")
    found = said("verify", tmp_path / "bundle.zip", *trusted)
    assert stated in found
    assert "ok    sign_offs.chain" in found


def test_a_training_elsewhere_is_declared_and_its_bundle_is_valid(
    call, said, json_of, service, trusted, tmp_path
):
    ledger = json_of("api", "POST", "ledgers", "--body", "-", stdin=yaml.safe_dump(LOCAL))["id"]
    declare = ("api", "POST", f"ledgers/{ledger}/rounds", "--body", "-")
    event = {"kind": "gaussian", "noise_multiplier": 8}
    rounds = {"rounds": [{"round": 1, "event": event, "participants": ["a", "b"]}]}
    posted = json_of(*declare, stdin=json.dumps(rounds))
    assert posted["rounds"][0]["charged"] == "participants"
    report = ("api", "GET", f"ledgers/{ledger}/report")
    signature = lambda: json_of(*report)["integrity"]["signature"]  # noqa: E731
    wait_until(signature, "the sweeper to sign", pause=0.5)
    bundle, kept = tmp_path / "bundle.zip", tmp_path / "kept.zip"
    said("api", "GET", f"ledgers/{ledger}/bundle", "--out", bundle)
    verified = said("verify", bundle, *trusted)
    # By its id too, as experiments and audits are.
    by_id = said("verify", ledger, *trusted, "--out", kept)
    assert f"valid: ledger {ledger}, 1 entry\n" in by_id
    assert "not verified: clips, noise, samples and counts are as the trainer declared" in by_id
    assert said("verify", kept, *trusted) == verified
    faulty = json.dumps({"rounds": [{"round": 2}]})
    assert_refused(call(*declare, stdin=faulty), "/rounds/0/event")


def test_a_bundle_is_verified_offline(command, trusted, bundle):
    identifier, path = bundle
    done = command("verify", path, *trusted, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["experiment_id"]) == ("valid", identifier)
    assert {check["outcome"] for check in found["checks"]} == {"pass"}
    stated = command("verify", path, *trusted)
    assert stated.stdout.splitlines()[-1].startswith("valid: experiment ")
    untrusted = command("verify", path)
    assert untrusted.returncode == 3
    assert "consistent, signer untrusted" in untrusted.stdout


def test_an_altered_bundle_is_reported_with_its_place(command, trusted, bundle, tmp_path):
    with zipfile.ZipFile(bundle[1]) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    lines = members["ledger.ndjson"].splitlines(keepends=True)
    row = json.loads(lines[4])
    row["radii"][0] *= 2
    lines[4] = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    for content, said in ((b"".join(lines), "round 5"), (b"".join(lines[:4]), "entries 5 to 12")):
        changed = tmp_path / "changed.zip"
        with zipfile.ZipFile(changed, "w") as archive:
            for name, kept in members.items():
                archive.writestr(name, content if name == "ledger.ndjson" else kept)
        for options in ((), trusted):
            done = command("verify", changed, *options)
            assert done.returncode == 1
            assert said in done.stdout
            assert done.stdout.splitlines()[-1].startswith("altered: ")


def test_the_bundle_of_another_experiment_is_refused(call, trusted, bundle):
    """A service that answers every question with its best run."""
    content = bundle[1].read_bytes()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/zip")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = {"FEDAUDIT_URL": f"http://127.0.0.1:{server.server_address[1]}"}
        asked, same = (call("verify", id_, *trusted, **there) for id_ in (UNKNOWN, bundle[0]))
        server.shutdown()
    assert_refused(asked, f"{UNKNOWN} was asked for, {bundle[0]} came", code=1)
    assert (asked.stdout, same.returncode) == ("", 0)


def test_what_cannot_be_verified_is_named(command, call, service, tmp_path):
    text = tmp_path / "text"
    text.write_text("no zip")
    for arguments, why in (
        ((text,), "is no bundle: it is no zip file"),
        (("nothing",), "neither a file nor the id of an experiment, audit or ledger"),
        ((text, "--public-key", tmp_path / "absent"), "cannot use"),
        ((text, "--public-key", service.data_dir / "signing-key.pem"), "holds a private key"),
        ((text, "--public-key", text), "holds no public key"),
    ):
        done = command("verify", *arguments)
        assert_refused(done, why)
        assert done.stdout == ""
    assert call("verify", UNKNOWN).returncode == 2


def test_a_signing_key_is_made_once_and_others_may_not_read_it(command, tmp_path):
    path = tmp_path / "key.pem"
    made = command("keys", "signing", "--out", path)
    assert (made.returncode, made.stdout) == (0, f"{path}.pub\n"), made.stderr
    assert_refused(command("keys", "signing", "--out", path), "never overwritten")
    path.chmod(0o644)
    named = {"FEDAUDIT_SIGNING_KEY_FILE": str(path)}
    assert_refused(command("up", "--data-dir", tmp_path / "data", env=named), "chmod 600")


def test_a_dossier_is_had_from_the_service(bundle, call, said, trusted, tmp_path):
    identifier, path = bundle
    assert call("dossier", path, "--out", tmp_path / "a").returncode == 2
    said("dossier", identifier, "--out", tmp_path / "a")
    said("verify", tmp_path / "a", *trusted)
    assert_refused(call("dossier", identifier, "--out", tmp_path / "a"), "has a dossier")
    page = tmp_path / "a" / "dossier.html"
    page.write_text(page.read_text().replace("questions are open", "questions open"))
    worded = call("verify", page.parent, *trusted)
    assert_refused(worded, "what is signed is unaltered", code=3)


def test_what_a_bundle_extracts(bundle, call, said, service, trusted, tmp_path):
    identifier, path = bundle
    extracted = tmp_path / "extracted"
    said("verify", path, *trusted, "--extract", extracted)
    files = {one.name for one in extracted.iterdir()}
    assert {"report.json", "claims.jsonl", "claims-key.pub", "gates.sigstore.json"} <= files
    reader = {"FEDAUDIT_API_KEY": service.key_with("reports:read")}
    claims = said("api", "GET", f"experiments/{identifier}/claims.jsonl", **reader)
    assert claims == (extracted / "claims.jsonl").read_text()
    for head in (extracted / "log" / "checkpoint", path):
        said("verify", path, *trusted, "--earlier", head)
    other = tmp_path / "other"
    other.write_text((extracted / "log" / "checkpoint").read_text().replace("\n", "\n1", 1))
    refused = call("verify", path, *trusted, "--earlier", other)
    assert (refused.returncode, "log.earlier" in refused.stdout) == (1, True)
    folder = call("verify", extracted, *trusted, "--extract", tmp_path / "again")
    assert_refused(folder, "a dossier has no log")
    nowhere = call("verify", path, *trusted, "--extract", other / "folder")
    assert_refused(nowhere, f"cannot use {other}")
