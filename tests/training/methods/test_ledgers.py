"""What methods release: models of their own cost nothing, and local training has no entry."""

from typing import Any

import pytest

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.reports.readings.reading_choice import reading
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from tests.training.gaussian import CENTRAL, LOCAL
from tests.training.specs import cell, groups_spec
from tests.training.test_layout import fingerprint, run_stacked

SPLIT = {
    "source": "synthetic-groups",
    "clients_per_group": [48, 12],
    "scoring": {"method": "split"},
}
SPECS: dict[str, dict[str, Any]] = {
    "fine-tuning": {"training__method": "fine-tuning"},
    "fine-tuning of several": {"training__method": "fine-tuning", "training__hypotheses": 3},
    "ditto": {"training__method": "ditto"},
    "q-ffl": {"training__method": "q-ffl", "privacy": {"mechanism": "none"}},
}


def method_spec(**changes: Any) -> dict[str, Any]:
    common = {"federation": SPLIT, "training__hypotheses": 1, "training__rounds": 6}
    return groups_spec(**{**common, **changes})


def run(**changes: Any) -> LocalRun:
    spec = parse_spec(method_spec(**changes))
    return run_locally(spec, sources_dir=None, device="cpu", progress=lambda _: None)


@pytest.mark.parametrize(
    "privacy",
    [{"mechanism": "laplace-l2", "noise_multiplier": 2.0}, LOCAL, CENTRAL],
    ids=["laplace-l2", "gaussian-local", "gaussian-central"],
)
def test_models_of_their_own_cost_nothing_more(privacy: dict[str, Any]) -> None:
    plain, *others = [
        run(training__method=kind, privacy=privacy).report
        for kind in ("hypotheses", "fine-tuning", "ditto")
    ]
    for other in others:
        assert other["integrity"]["ledger_hash"] == plain["integrity"]["ledger_hash"]
        assert other["privacy"] == plain["privacy"]
        assert other["guarantee"] == plain["guarantee"]
        assert other["utility"]["validation_loss"] != plain["utility"]["validation_loss"]
        assert "its own" in other["utility"]["method"]["personalised"]
        assert any("no count" in one for one in other["limits"])
    assert "method" not in plain["utility"]


def test_local_training_releases_nothing_and_claims_no_guarantee() -> None:
    done = run(training__method="local-only", privacy={"mechanism": "none"})
    report = done.report
    assert list(done.ledger.lines()) == []
    assert report["integrity"]["entries"] == report["utility"]["rounds"] == 0
    assert report["privacy"]["participations_max"] == 0
    assert report["guarantee"]["kind"] == "none"
    assert not report["guarantee"]["in_force"]
    assert "no update leaves a client" in report["guarantee"]["statement"]
    assert "nothing here bounds what these figures disclose" in report["guarantee"]["statement"]
    assert report["utility"]["method"]["sent"] is None
    assert report["model"] is None
    assert "each client's own stays" in report["verdict"]
    registry = reading(report, "registry")
    assert "no server is sent anything" in str(registry)
    assert "Released parameters: none" in str(reading(report, "model-card"))


def test_weighted_uploads_say_that_they_show_the_loss() -> None:
    report = run(training__method="q-ffl", privacy={"mechanism": "none"}).report
    assert "work out the loss" in report["guarantee"]["statement"]
    assert report["utility"]["method"]["personalised"] is None


@pytest.mark.parametrize("changes", SPECS.values(), ids=list(SPECS))
def test_stacked_or_resumed_a_run_is_the_same(changes: dict[str, Any]) -> None:
    cells = [cell(method_spec(seed=seed, **changes)) for seed in (0, 1)]
    together = run_stacked(cells, 6)
    for position, one in enumerate(cells):
        assert fingerprint(_resumed(one)) == fingerprint(together[position])


def _resumed(one: Cell) -> list[Any]:
    records: list[Any] = []
    checkpoint = None
    while len(records) < 6:
        stack = Stack([one], checkpoints=[checkpoint])
        records += stack.advance(2)[0]
        checkpoint = stack.checkpoint(0)
    return records


def test_methods_are_not_stacked_with_others() -> None:
    cells = [cell(method_spec(training__method=kind)) for kind in ("fine-tuning", "ditto")]
    with pytest.raises(ValueError, match="one shape"):
        Stack(cells)
