"""`fedaudit ledgers`, against a real service whose sweeper signs."""

import json

import yaml

from tests.waiting import wait_until

TERMS = {
    "name": "a training in Flower",
    "mechanism": "gaussian-local",
    "delta": 1e-5,
    "accountant": "rdp",
    "adjacency": "replace-one",
    "observer": "server",
    "unit": "client",
    "population": 10,
}


def test_a_training_elsewhere_is_declared_and_its_bundle_is_valid(command, service, tmp_path):
    def call(*arguments, stdin=""):
        return command("ledgers", *arguments, stdin=stdin, env=service.environment)

    created = call("create", "-", stdin=yaml.safe_dump(TERMS))
    assert created.returncode == 0, created.stderr
    ledger = created.stdout.strip()
    event = {"kind": "gaussian", "noise_multiplier": 8}
    rounds = {"rounds": [{"round": 1, "event": event, "participants": ["a", "b"]}]}
    posted = call("post", ledger, "-", stdin=json.dumps(rounds))
    assert posted.stdout.startswith("round 1: participants charged, ")
    shown = call("show", ledger)
    assert "as declared by the trainer" in shown.stdout
    assert ledger in call("list").stdout

    def signature():
        return json.loads(call("report", ledger, "--json").stdout)["integrity"]["signature"]

    wait_until(signature, "the sweeper to sign", pause=0.5)
    page, bundle = tmp_path / "report.html", tmp_path / "bundle.zip"
    written = call("report", ledger, "--out", str(page), "--bundle", str(bundle))
    assert written.returncode == 0, written.stderr
    assert "As declared by the trainer" in page.read_text()
    key = service.data_dir / "signing-key.pem.pub"
    verified = command("verify", str(bundle), "--public-key", str(key))
    assert verified.returncode == 0, verified.stdout
    # By its id too, as experiments and audits are.
    kept = tmp_path / "kept.zip"
    by_id = command(
        "verify", ledger, "--public-key", str(key), "--out", str(kept), env=service.environment
    )
    assert by_id.returncode == 0, by_id.stderr
    assert f"valid: ledger {ledger}, 1 entry\n" in by_id.stdout
    assert (
        "not verified: clips, noise, samples and counts are as the trainer declared" in by_id.stdout
    )
    assert command("verify", str(kept), "--public-key", str(key)).stdout == verified.stdout
    refused = call("post", ledger, "-", stdin=json.dumps({"rounds": [{"round": 2}]}))
    assert refused.returncode == 2
    assert "/rounds/0/event" in refused.stderr
