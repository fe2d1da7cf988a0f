"""`fedaudit verify` and the keys, at the front door."""

import json
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep

import pytest
import yaml

UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def bundle(call, small_spec, tmp_path):
    """A finished experiment's id and its bundle; the experiment runs once."""
    options = ("--wait", "--json", "--idempotency-key", "verified")
    done = call("submit", "-", *options, stdin=yaml.safe_dump(small_spec))
    assert done.returncode == 0, done.stderr
    identifier = json.loads(done.stdout)["id"]
    path = tmp_path / "bundle.zip"
    fetched = call("verify", identifier, "--out", path)
    assert fetched.returncode == 3, fetched.stdout + fetched.stderr
    assert "a key that comes with the evidence proves nothing" in fetched.stderr
    return identifier, path


def test_a_sign_off_is_signed_by_the_service_and_in_the_bundle(
    call, command, service, small_spec, tmp_path
):
    spec = {**small_spec, "name": "signed-off"}
    done = call("submit", "-", "--wait", "--json", stdin=yaml.safe_dump(spec))
    identifier = json.loads(done.stdout)["id"]
    made = command(
        *("keys", "create", "--project", service.project, "--scopes", "reports:read,reports:sign"),
        *("--person", "Ada Lovelace", "--person-role", "officer", "--data-dir", service.data_dir),
    )
    ada = {**service.environment, "FEDAUDIT_API_KEY": made.stdout.strip()}
    refused = command("sign-off", identifier, "--decision", "approved", env=ada)
    assert refused.returncode == 2
    assert "guarantee is not in force" in refused.stderr
    options = ("--decision", "approved", "--note", "a rehearsal")
    signed = command("sign-off", identifier, *options, env=ada)
    assert signed.returncode == 0, signed.stderr
    assert "sign-off 1: approved by Ada Lovelace, officer" in signed.stdout
    deadline = monotonic() + 60
    while True:
        listed = command("api", "GET", f"experiments/{identifier}/sign-offs", env=ada)
        [one] = json.loads(listed.stdout)["items"]
        if one["envelope"] is not None:
            break
        assert monotonic() < deadline, "the sweeper has not signed it"
        sleep(0.5)
    path, key = tmp_path / "bundle.zip", service.data_dir / "signing-key.pem.pub"
    call("verify", identifier, "--out", path)
    found = command("verify", path, "--public-key", key)
    assert found.returncode == 0, found.stdout
    assert "sign-off 1: approved by Ada Lovelace, officer" in found.stdout
    assert "ok    sign_offs.chain" in found.stdout


def test_a_bundle_is_verified_offline(command, service, bundle):
    identifier, path = bundle
    key = service.data_dir / "signing-key.pem.pub"
    done = command("verify", path, "--public-key", key, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["experiment_id"]) == ("valid", identifier)
    assert {check["outcome"] for check in found["checks"]} == {"pass"}
    stated = command("verify", path, "--public-key", key)
    assert stated.stdout.splitlines()[-1].startswith("valid: experiment ")
    untrusted = command("verify", path)
    assert untrusted.returncode == 3
    assert "consistent, signer untrusted" in untrusted.stdout


def test_an_altered_bundle_is_reported_with_its_place(command, service, bundle, tmp_path):
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
        for options in ((), ("--public-key", service.data_dir / "signing-key.pem.pub")):
            done = command("verify", changed, *options)
            assert done.returncode == 1
            assert said in done.stdout
            assert done.stdout.splitlines()[-1].startswith("altered: ")


def test_the_bundle_of_another_experiment_is_refused(command, service, bundle):
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

    key = service.data_dir / "signing-key.pem.pub"
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        known = {
            **service.environment,
            "FEDAUDIT_URL": f"http://127.0.0.1:{server.server_address[1]}",
        }
        asked = command("verify", UNKNOWN, "--public-key", key, env=known)
        same = command("verify", bundle[0], "--public-key", key, env=known)
        server.shutdown()
    assert (asked.returncode, asked.stdout) == (1, "")
    assert f"{UNKNOWN} was asked for, {bundle[0]} came" in asked.stderr
    assert same.returncode == 0


def test_what_cannot_be_verified_is_named(command, call, service, tmp_path):
    text = tmp_path / "text"
    text.write_text("no zip")
    for arguments, said in (
        ((text,), "is no bundle: it is no zip file"),
        (("nothing",), "neither a file nor the id of an experiment, audit or ledger"),
        ((text, "--public-key", tmp_path / "absent"), "cannot use"),
        ((text, "--public-key", service.data_dir / "signing-key.pem"), "holds a private key"),
        ((text, "--public-key", text), "holds no public key"),
    ):
        done = command("verify", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert call("verify", UNKNOWN).returncode == 2


def test_a_signing_key_is_made_once(command, tmp_path):
    made = command("keys", "signing", "--out", tmp_path / "key.pem")
    assert made.returncode == 0, made.stderr
    assert made.stdout == f"{tmp_path / 'key.pem.pub'}\n"
    again = command("keys", "signing", "--out", tmp_path / "key.pem")
    assert again.returncode == 2
    assert "never overwritten" in again.stderr


def test_up_refuses_a_key_that_others_can_read(command, tmp_path):
    command("keys", "signing", "--out", tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o644)
    named = {"FEDAUDIT_SIGNING_KEY_FILE": str(tmp_path / "key.pem")}
    done = command("up", "--data-dir", tmp_path / "data", env=named)
    assert done.returncode == 2
    assert "chmod 600" in done.stderr


def test_a_dossier_is_had_from_the_service(bundle, call, service, tmp_path):
    identifier, path = bundle
    key = service.data_dir / "signing-key.pem.pub"
    assert call("dossier", path, "--out", tmp_path / "a").returncode == 2
    assert call("dossier", identifier, "--out", tmp_path / "a").returncode == 0
    checked = call("verify", tmp_path / "a", "--public-key", key)
    assert checked.returncode == 0, checked.stdout
    again = call("dossier", identifier, "--out", tmp_path / "a")
    assert (again.returncode, "has a dossier" in again.stderr) == (2, True)
    page = tmp_path / "a" / "dossier.html"
    page.write_text(page.read_text().replace("questions are open", "questions open"))
    worded = call("verify", page.parent, "--public-key", key)
    assert (worded.returncode, "what is signed is unaltered" in worded.stderr) == (3, True)


def test_what_a_bundle_extracts(bundle, call, command, service, tmp_path):
    identifier, path = bundle
    key = ("--public-key", service.data_dir / "signing-key.pem.pub")
    extracted = tmp_path / "extracted"
    assert call("verify", path, *key, "--extract", extracted).returncode == 0
    files = {one.name for one in extracted.iterdir()}
    assert {"report.json", "claims.jsonl", "claims-key.pub", "gates.sigstore.json"} <= files
    made = command(
        *("keys", "create", "--project", service.project, "--scopes", "reports:read"),
        *("--data-dir", service.data_dir),
    )
    claims = call(
        *("api", "GET", f"experiments/{identifier}/claims.jsonl"),
        FEDAUDIT_API_KEY=made.stdout.strip(),
    )
    assert claims.stdout == (extracted / "claims.jsonl").read_text()
    for head in (extracted / "log" / "checkpoint", path):
        assert call("verify", path, *key, "--earlier", head).returncode == 0
    other = tmp_path / "other"
    other.write_text((extracted / "log" / "checkpoint").read_text().replace("\n", "\n1", 1))
    refused = call("verify", path, *key, "--earlier", other)
    assert (refused.returncode, "log.earlier" in refused.stdout) == (1, True)
    folder = call("verify", extracted, *key, "--extract", tmp_path / "again")
    assert (folder.returncode, "a dossier has no log" in folder.stderr) == (2, True)
    nowhere = call("verify", path, *key, "--extract", other / "folder")
    assert (nowhere.returncode, f"cannot use {other}" in nowhere.stderr) == (2, True)
