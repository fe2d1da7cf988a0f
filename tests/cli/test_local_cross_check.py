"""`fedaudit run` computes the fairness figures of its report twice."""

import fairlearn
import numpy as np
import pytest
import yaml

from fedaudit.cli.failures import CommandError
from fedaudit.cli.local_run import run_locally
from fedaudit.cli.main import main
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.group_counts import GroupCounter


def run(spec):
    """The spec's run."""
    return run_locally(parse_spec(spec), sources_dir=None, device="cpu", progress=lambda _: None)


@pytest.fixture
def miscounting(monkeypatch):
    """One row of the final evaluation is counted as another kind."""
    counted = GroupCounter.count_clients

    def count(self, *arguments, **options):
        counts = counted(self, *arguments, **options)
        for of_groups in counts.values():
            client = np.flatnonzero(of_groups[0, :, 0, 2])[0]
            of_groups[0, client, 0] += [0, 1, -1, 0]
        return counts

    monkeypatch.setattr(GroupCounter, "count_clients", count)


def test_the_report_says_with_what_and_how_close(small_spec):
    [section] = run(small_spec).report["fairness"]
    check = section["cross_check"]
    assert (check["library"], check["version"]) == ("fairlearn", fairlearn.__version__)
    assert check["largest_difference"] <= 1e-12
    assert "equalized_odds_difference" in check["metrics"]


@pytest.mark.usefixtures("miscounting")
def test_a_wrong_count_ends_the_run(small_spec):
    with pytest.raises(CommandError, match=r"failed: selection_rate by group = g1 is .* computes"):
        run(small_spec)


@pytest.mark.usefixtures("miscounting")
def test_nothing_is_written_for_it(small_spec, tmp_path, monkeypatch, capsys):
    spec, out = tmp_path / "spec.yaml", tmp_path / "out"
    spec.write_text(yaml.safe_dump(small_spec))
    monkeypatch.setattr("sys.argv", ["fedaudit", "run", str(spec), "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "Fairlearn" in capsys.readouterr().err
    assert list(out.iterdir()) == []
