"""The methods of training against a plain loop, and their ledgers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedaudit.cli.run import LocalRun
from fedaudit.federations.federation import Federation
from fedaudit.reports.readings.readings import reading
from fedaudit.spec.training import TrainingMethod
from fedaudit.training.base.cell import Cell, first_hypotheses
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.methods import LossWeighting
from fedaudit.training.stack import Stack
from tests.training.bits import assert_repeats, fingerprint
from tests.training.federations import ENGINES, RULE, TABLE, table_cell
from tests.training.gaussian import LOCAL
from tests.training.round_records import RoundRecord
from tests.training.specs import cell, groups_spec, kinds_of, play, ran
from tests.training.test_stack import run_stacked


def method_names() -> set[str]:
    """What a spec may give as `training.method.kind`."""
    return {name for part in get_args(get_args(TrainingMethod)[0]) for name in part.names()}


Vector = NDArray[np.float64]
SPLIT = {**TABLE, "validation_fraction": 0.4, "scoring": {"method": "split", "fraction": 0.5}}
STEP, EPOCHS, ROUNDS = 0.05, 2, 4
METHODS: dict[str, dict[str, Any]] = {
    "fine-tuning": {"kind": "fine-tuning", "steps": 3, "step_size": 0.2},
    "ditto": {"kind": "ditto", "proximal": 0.7, "steps": 5},
    "local-only": {"kind": "local-only", "steps": 6, "step_size": 0.1},
    "q-ffl": {"kind": "q-ffl", "q": 1.5},
    "q-ffl, q below 1": {"kind": "q-ffl", "q": 0.5},
    "q-ffl, plain averaging": {"kind": "q-ffl", "q": 0},
}


def method_cell(data: Federation, method: dict[str, Any], **changes: Any) -> Cell:
    given = {
        "federation": SPLIT,
        "training__hypotheses": 1,
        "training__loss": "mse",
        "training__rounds": ROUNDS,
        "training__local": {"epochs": EPOCHS, "step_size": STEP},
        "training__method": method,
        "fairness": RULE,
        **changes,
    }
    return table_cell(data, **given)


def played(cell: Cell) -> tuple[list[RoundRecord], FinalResult, Stack]:
    stack = Stack([cell])
    return play(stack, (ROUNDS,)), stack.result(0), stack


@dataclass(frozen=True)
class Loop:
    """A linear model with an intercept, client by client, in double precision."""

    data: Federation
    root: bool

    def rows(self, client: int) -> tuple[Vector, Vector]:
        features = self.data.features
        values = features if isinstance(features, np.ndarray) else features.values
        own = values[self.data.own(client)].astype(float)
        return np.column_stack([own, np.ones(len(own))]), self.data.target[self.data.own(client)]

    def loss(self, theta: Vector, x: Vector, y: Vector) -> float:
        mean = float(np.mean((x @ theta - y) ** 2))
        return mean**0.5 if self.root else mean

    def gradient(self, theta: Vector, x: Vector, y: Vector) -> Vector:
        slope: Vector = 2 * x.T @ (x @ theta - y) / len(y)
        return slope / (2 * self.loss(theta, x, y)) if self.root else slope

    def local(self, theta: Vector, client: int) -> Vector:
        for _ in range(EPOCHS):
            theta = theta - STEP * self.gradient(theta, *self.rows(client))
        return theta

    def average(self, theta: Vector, cohort: list[int]) -> Vector:
        """FedAvg."""
        return np.mean([self.local(theta, client) for client in cohort], axis=0)

    def weighted(self, theta: Vector, cohort: list[int], q: float) -> Vector:
        """q-FedAvg: Li et al. 2020, Algorithm 2, with L = 1 / step size."""
        deltas, divisors = [], []
        for client in cohort:
            loss = self.loss(theta, *self.rows(client))
            slope = (theta - self.local(theta, client)) / STEP
            deltas.append(loss**q * slope)
            divisors.append(q * loss ** (q - 1) * slope @ slope + loss**q / STEP)
        return theta - np.sum(deltas, axis=0) / np.sum(divisors)

    def personal(self, theta: Vector, client: int, tunes: Any, method: dict[str, Any]) -> Vector:
        """Ditto's problem (Li et al. 2021, equation 1) from the common model; without lambda plain
        descent."""
        x, y = (part[tunes] for part in self.rows(client))
        own = theta
        for _ in range(method["steps"] if len(y) else 0):
            slope = self.gradient(own, x, y) + method.get("proximal", 0) * (own - theta)
            own = own - method.get("step_size", STEP) * slope
        return own


def scored_by_hand(
    loop: Loop, stack: Stack, hypotheses: Vector, method: dict[str, Any]
) -> tuple[list[float], NDArray[np.int64]]:
    """The loss of each held-out client, and the counts of its groups [clients, groups, 4]."""
    held_out = stack._splits.validation[0]
    scored = stack._splits.scored_rows(held_out, 0)
    assert scored is not None
    first, losses, counts = 0, [], np.zeros((len(held_out), 2, 4), dtype=np.int64)
    for place, client in enumerate(held_out.tolist()):
        x, y = loop.rows(client)
        own = scored[first : (first := first + len(y))]
        fits = [loop.loss(one, x[~own], y[~own]) for one in hypotheses] if len(y) > 1 else [0.0]
        chosen = hypotheses[int(np.argmin(fits))]
        model = loop.personal(chosen, client, ~own, method) if "steps" in method else chosen
        losses.append(loop.loss(model, x[own], y[own]))
        kinds = kinds_of((x @ model)[own] >= 0.2, y[own] >= 0.2)
        codes = loop.data.attributes[0].codes[loop.data.own(client)][own]
        np.add.at(counts[place], (codes[codes >= 0], kinds[codes >= 0]), 1)
    return losses, counts


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
@pytest.mark.parametrize(
    ("engine", "loss"),
    [
        ("side by side", "mse"),
        ("side by side", "rmse"),
        ("client by client", "rmse"),
        ("by length", "rmse"),
    ],
)
def test_a_plain_loop_gets_the_same(engine, method, loss):
    data = ENGINES[engine]()
    cell = method_cell(data, method, training__loss=loss)
    records, result, stack = played(cell)
    loop = Loop(data, root=loss == "rmse")
    theta = first_hypotheses(cell)[0].astype(float)
    assert len(records) == (0 if method["kind"] == "local-only" else ROUNDS)
    for record in records[: result.best_round]:
        cohort = record.subjects.tolist()
        weighted = method["kind"] == "q-ffl"
        theta = (
            loop.weighted(theta, cohort, method["q"]) if weighted else loop.average(theta, cohort)
        )
    assert result.hypotheses[0] == pytest.approx(theta, rel=2e-4, abs=2e-5)
    losses, counts = scored_by_hand(loop, stack, theta[None], method)
    assert result.validation_loss == pytest.approx(np.mean(losses), rel=1e-3)
    assert np.array_equal(result.fairness["group"], counts)
    if "steps" in method:
        assert result.selection_loss == result.validation_loss


@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
@pytest.mark.parametrize("kind", ["fine-tuning", "ditto", "local-only"])
def test_no_score_sees_what_it_was_tuned_on(kind: str, engine: Callable[[], Federation]) -> None:
    """The targets of scored rows, were they looked at, would move predictions; those of the other
    rows do."""
    data = engine()
    cell = method_cell(data, {"kind": kind, "steps": 3}, training__rounds=1)
    splits = Stack([cell])._splits
    place = data.rows_of(splits.validation[0])
    scored = splits.scored_rows(splits.validation[0], 0)
    assert scored is not None

    def predictions(changed: Any) -> NDArray[np.generic]:
        target = data.target.copy()
        target[changed] += 100.0
        stack = Stack([replace(cell, federation=replace(data, target=target))])
        stack.advance(1)
        found = stack._scored(0, stack._state.of_cell(0), per_client=True, tuned=True)
        return found.rows.predictions

    plain = predictions([])
    assert np.array_equal(predictions(place[scored]), plain)
    assert not np.array_equal(predictions(place[~scored]), plain)


@pytest.mark.parametrize("engine", ["side by side", "client by client"])
def test_each_client_tunes_the_hypothesis_that_it_chose(engine: str) -> None:
    method = {"kind": "fine-tuning", "steps": 4, "step_size": 0.01}
    model = {"kind": "linear", "start": "normal"}
    data = ENGINES[engine]()
    _, result, stack = played(method_cell(data, method, training__hypotheses=3, model=model))
    hypotheses = result.hypotheses.astype(float)
    _, counts = scored_by_hand(Loop(data, root=False), stack, hypotheses, method)
    several = data.counts[stack._splits.validation[0]] > 1
    assert np.array_equal(result.fairness["group"][several], counts[several])
    assert len(set(result.hypotheses[:, 0].tolist())) == 3


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_weights_beyond_floating_point_leave_nobody_out(scale: float) -> None:
    """Losses of 1e6 to the power of 100 are no numbers; their ratios are."""
    weighting = LossWeighting(100.0, lipschitz=10.0)
    start, updated = torch.zeros(1, 3, 2), torch.tensor([[[1.0, 0], [0, 1], [1, 1]]])
    losses = scale**2 * torch.tensor([[1.0, 1.5, 3.0]])
    sent = weighting.weigh(start, updated, losses)
    assert torch.isfinite(sent).all()
    everyone = torch.ones(1, 3, dtype=torch.bool)
    sums = weighting.weighted(sent, everyone).sum(1, keepdim=True)
    moved = weighting.step(torch.zeros(1, 1, 2), sums)
    # The client with the largest loss decides: its own step, as if it were alone.
    alone = weighting.weighted(sent, torch.tensor([[False, False, True]]))[:, 2:]
    assert torch.allclose(moved, weighting.step(torch.zeros(1, 1, 2), alone), rtol=1e-4)
    assert moved.abs().sum() > 0


SPLIT_LEDGERS = {
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
    common = {"federation": SPLIT_LEDGERS, "training__hypotheses": 1, "training__rounds": 6}
    return groups_spec(**{**common, **changes})


def run(**changes: Any) -> LocalRun:
    return ran(method_spec(**changes))


@pytest.mark.parametrize(
    "privacy",
    [{"mechanism": "laplace-l2", "noise_multiplier": 2.0}, LOCAL],
    ids=["laplace-l2", "gaussian-local"],
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
        assert fingerprint(assert_repeats(one, stops=(2, 2))) == fingerprint(together[position])


def test_a_plain_loop_repeats_every_method() -> None:
    assert method_names() == {"hypotheses", *(one["kind"] for one in METHODS.values())}
