"""A ledger of a training elsewhere by `fedaudit api`; the sweeper of a real service signs it."""

import json

import yaml

from tests.api.ledgers.trainings import LOCAL
from tests.waiting import wait_until


def test_a_training_elsewhere_is_declared_and_its_bundle_is_valid(command, service, tmp_path):
    def call(*arguments, stdin=""):
        done = command("api", *arguments, stdin=stdin, env=service.environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ledger = call("POST", "ledgers", "--body", "-", stdin=yaml.safe_dump(LOCAL))["id"]
    event = {"kind": "gaussian", "noise_multiplier": 8}
    rounds = {"rounds": [{"round": 1, "event": event, "participants": ["a", "b"]}]}
    path = f"ledgers/{ledger}"
    posted = call("POST", f"{path}/rounds", "--body", "-", stdin=json.dumps(rounds))
    assert posted["rounds"][0]["charged"] == "participants"

    def signature():
        return call("GET", f"{path}/report")["integrity"]["signature"]

    wait_until(signature, "the sweeper to sign", pause=0.5)
    bundle = tmp_path / "bundle.zip"
    saved = command("api", "GET", f"{path}/bundle", "--out", bundle, env=service.environment)
    assert saved.returncode == 0, saved.stderr
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
    faulty = json.dumps({"rounds": [{"round": 2}]})
    asked = ("api", "POST", f"{path}/rounds", "--body", "-")
    refused = command(*asked, stdin=faulty, env=service.environment)
    assert refused.returncode == 2
    assert "/rounds/0/event" in refused.stderr
