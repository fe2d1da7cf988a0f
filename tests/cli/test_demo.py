"""`make demo`: what it shows, keeps and leaves behind."""

import json
import subprocess
import sys

import yaml

from tests.cli.service import clean_environment


def test_two_experiments_over_http(tmp_path, small_spec):
    for name, hypotheses in (("one", 1), ("two", 2)):
        training = {**small_spec["training"], "hypotheses": hypotheses}
        spec = {**small_spec, "name": name, "training": training}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(spec))
    # The urls of another service must not draw the demonstration there.
    environment = clean_environment(
        FEDAUDIT_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none",
        FEDAUDIT_BROKER_URL="redis://127.0.0.1:9/0",
        TMPDIR=str(tmp_path),
    )
    demo = ("-P", "-m", "fedaudit.cli.demo", "--out", "output", "one.yaml", "two.yaml")
    done = subprocess.run(
        [sys.executable, *demo],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "output").iterdir()}
    assert names == {"one.json", "one.html", "two.json", "two.html"}
    [row] = [line for line in done.stdout.splitlines() if "equalized_odds_difference  " in line]
    for name in ("one", "two"):
        report = json.loads((tmp_path / "output" / f"{name}.json").read_text())
        value = report["fairness"][0]["metrics"]["equalized_odds_difference"]["value"]
        assert f"{value:.3f}" in row
    assert done.stdout.count("passed at ") == 4
    assert list(tmp_path.glob("fedaudit-demo-*")) == []
    assert "the service has stopped" in done.stderr
