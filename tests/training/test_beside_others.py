"""What a client learns is the same to the last bit, no matter which clients learn beside it.

A client who comes or goes then moves a sum by its own contribution and nothing else, which is what
noise is scaled to.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.federations.federation import Federation
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.engine import ByLength, SideBySide, build_engines
from fedaudit.training.personalised import RecordByRecord
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_round import Cohort, Engine, Learned
from fedaudit.training.stacked.stack_state import first_state
from tests.accelerator import DEVICE
from tests.training.federations import (
    RECORD_SPLIT,
    TABLE,
    federation,
    one_by_one,
    random_federation,
    table_cell,
    uneven,
)
from tests.training.gaussian import ADAM, MOVES
from tests.training.personalised import records_cell
from tests.training.test_one_by_one import NAMED

BATCHES: dict[str, Any] = {"epochs": 2, "batch_size": 4, "step_size": 0.05}
WIDE = {"kind": "mlp", "hidden": [40, 20]}
SQUARED = {"training__loss": "mse"}
CELLS: dict[str, Cell] = {
    "linear": table_cell(random_federation(), **SQUARED),
    "batches": table_cell(random_federation(max_rows=30), **SQUARED, training__local=BATCHES),
    "adam": table_cell(random_federation(max_rows=9), **SQUARED, training__local=ADAM),
    "momentum": table_cell(random_federation(max_rows=9), **SQUARED, **MOVES["momentum"]),
    "wide": table_cell(random_federation(max_rows=20, width=50), **SQUARED, model=WIDE),
    "named layers": table_cell(random_federation(max_rows=20, width=9), **SQUARED, model=NAMED),
    "long": table_cell(random_federation(max_rows=300, width=30), **SQUARED),
    "by length": table_cell(uneven([1, 3, 200, 900, *[5] * 12, *[70] * 9]), **SQUARED),
    "by length, wide": table_cell(
        uneven([1, 3, 200, 900, *[5] * 12, *[70] * 9]),
        **SQUARED,
        model=WIDE,
        training__local={"epochs": 1, "batch_size": 16, "step_size": 0.05},
    ),
}


def learned(cell: Cell, clients: NDArray[np.int64]) -> Tensor:
    """What these clients make of the same hypotheses: [clients, n]."""
    engine, _ = build_engines([cell], split_cells([cell]), torch.device(DEVICE))
    assert isinstance(engine, SideBySide | ByLength)
    random = torch.Generator().manual_seed(3)
    hypotheses = cell.spec.training.hypotheses
    theta = 0.3 * torch.randn(1, hypotheses, cell.shape.n, generator=random)
    theta = theta.to(DEVICE)
    cohort = Cohort(
        rounds=np.array([3]),
        clients=clients[None],
        allowed=np.ones((1, len(clients)), dtype=np.bool_),
        noise=None,
    )
    with torch.no_grad():
        if isinstance(engine, ByLength):
            return engine._learn(theta, cohort).updated[0]
        columns = engine._data.columns(cohort.clients, [0])
        return engine._learns([columns])(0, theta, cohort).updated[0]


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_what_a_client_learns_does_not_depend_on_who_learns_beside_it(cell: Cell) -> None:
    everyone = np.arange(cell.federation.clients)
    whole = learned(cell, everyone)
    assert whole.isfinite().all()
    differ = {}
    for count in (1, 2, 3, 7, 8, 15, 16, 17, len(everyone) - 1):
        for first in (0, len(everyone) - count):
            some = everyone[first : first + count]
            found = learned(cell, some)
            apart = (found != whole[some]).any(-1).sum().item()
            if apart:
                differ[count, first] = (apart, (found - whole[some]).abs().max().item())
    assert not differ


# -- neighbours: another client has other rows ----------------------------------------------------

SHORT, UNEVEN = [3, 17, 64, 20, 40, 9, 33, 64, 2, 50], [5] * 9
LONG = [70, 100, 128, 90, 120, 65, 99, 130, 110, 77]
NARROW = {"kind": "mlp", "hidden": [16]}
NARROW_DEEP = {"kind": "mlp", "hidden": [16] * 4}
SEVERAL = {"epochs": 3, "batch_size": 16, "step_size": 0.05}
MANY: dict[str, Any] = {"steps": 30, "batch_size": 10, "step_size": 0.05}
BY_SIGMOID = {"kind": "layers", "layers": [{"kind": "dense", "units": 7}, {"kind": "sigmoid"}]}

NEIGHBOURS: dict[str, tuple[list[int], tuple[int, int], dict[str, Any]]] = {
    "kernels": (SHORT, (64, 65), {}),
    "small": (SHORT, (64, 65), {"model": NARROW, "training__local": {**ADAM, "epochs": 5}}),
    "deep": (SHORT, (64, 65), {**SQUARED, "model": NARROW_DEEP}),
    "wide": (SHORT, (1, 200), {**SQUARED, "model": WIDE}),
    "named layers": (SHORT, (10, 130), {**SQUARED, "model": BY_SIGMOID}),
    "batches": (UNEVEN, (12, 60), {"training__local": {**SEVERAL, "batch_size": 2}}),
    "batches of some": (SHORT, (64, 65), {"training__local": {**SEVERAL, "batch_size": 64}}),
    "batches of an odd size": (SHORT, (9, 64), {"training__local": {**SEVERAL, "batch_size": 7}}),
    "batches, wide": (LONG, (60, 400), {"model": WIDE, "training__local": SEVERAL, **SQUARED}),
    "steps": (UNEVEN, (12, 400), {"training__local": MANY}),
    "steps with memory": (SHORT, (40, 90), {"training__local": {**MANY, "optimiser": "adam"}}),
    "one more class of lengths": (UNEVEN, (60, 900), {"model": NARROW}),
    "one more class of lengths, wide": (LONG, (128, 900), {**SQUARED, "model": WIDE}),
    "weighted losses": (
        SHORT, (64, 65), {"training__method": {"kind": "q-ffl"}, "training__hypotheses": 1}
    ),
    "models of their own": (
        SHORT,
        (64, 65),
        {
            "federation": {**TABLE, "scoring": {"method": "split", "fraction": 0.4}},
            "training__method": {"kind": "ditto", "proximal": 0.7, "steps": 5},
            "training__hypotheses": 1,
            "model": WIDE,
        },
    ),
}  # fmt: skip


def with_rows(counts: list[int], *, classes: int = 0) -> Federation:
    """Clients with these numbers of rows, each one's own whatever those of the others are."""
    features, target = [], []
    for client, count in enumerate(counts):
        random = np.random.default_rng(client)
        features.append(random.normal(size=(1000, 5))[:count])
        outputs = features[-1].sum(1) + random.normal(size=1000)[:count]
        target.append(outputs > 0 if classes else outputs)
    names = tuple(f"class-{one}" for one in range(classes))
    return federation(features, target, classes=names)


def figures_of_others(cell: Cell, changed: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What every client but one learns in the first round, by number, and what is made of the rows
    of all that are held out but those of this one."""
    found: dict[str, Any] = {}

    def keep(clients: NDArray[np.int64], *learned: Tensor) -> None:
        for client, *own in zip(clients.tolist(), *learned, strict=True):
            if client != changed:
                found[f"client {client}"] = [one.numpy().tobytes() for one in own]

    def collect(
        self: Engine, theta: Tensor, cohort: Cohort, learned: Iterable[Learned], clips: Any
    ) -> Any:
        parts = [replace(one, updated=one.updated.clone()) for one in learned]
        for part in parts:
            keep(cohort.of(part.places).clients[0], part.chosen[0], part.updated[0])
        return collected(self, theta, cohort, parts, clips)

    def models(self: RecordByRecord, theta: Tensor, cohort: Cohort) -> Tensor:
        made = steps(self, theta, cohort)
        keep(cohort.clients[0], made)
        return made

    collected, steps = Engine._collect, RecordByRecord._learned
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_collect", collect)
        patch.setattr(RecordByRecord, "_learned", models)
        stack = Stack([cell])
        stack.plan(1)
        stack.advance(1)
    assert found
    figures = stack._scored(0, first_state(cell), per_client=True, tuned=True)
    held_out, rows = cell.validation_rows, figures.rows
    assert rows is not None
    owner = cell.federation.client_of[held_out.place]
    for name, values in vars(rows).items():
        if values is not None:
            found[name] = values[owner != changed].tobytes()
    if changed not in owner:
        found["losses"] = figures.selection_loss.tobytes(), figures.validation_loss.tobytes()
    return found


def assert_neighbours(
    cells: Callable[[Federation], Cell],
    layout: tuple[list[int], tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    classes: int = 0,
) -> None:
    """The same to the last bit, whether one client, who trains or not, has few rows or many."""
    counts, ends = layout
    everyone = list(range(len(counts)))
    training = split_cells([cells(with_rows(counts, classes=classes))]).training[0].tolist()
    held_out = [client for client in everyone if client not in training] or training
    for changed in (training[0], held_out[0]):
        pair = []
        for rows in ends:
            own = [rows if client == changed else counts[client] for client in everyone]
            cell = cells(with_rows(own, classes=classes))
            pair.append(figures_of_others(cell, changed, monkeypatch))
        assert pair[0].keys() == pair[1].keys()
        assert [name for name in pair[0] if pair[0][name] != pair[1][name]] == []


@pytest.mark.parametrize("classes", [0, 2])
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_rows_of_one_client_change_nothing_of_another(name, classes, monkeypatch):
    counts, ends, changes = NEIGHBOURS[name]
    given: dict[str, Any] = {"training__cohort": {"clients": 5}, **changes}
    if classes:
        given["training__loss"] = "cross-entropy"
        given.setdefault("model", {"kind": "logistic"})

    def cells(data: Federation) -> Cell:
        return table_cell(data, **given)

    assert_neighbours(cells, (counts, ends), monkeypatch, classes=classes)


OVERFLOWING: dict[str, dict[str, Any]] = {
    "kernels": {},
    "kernels, hidden": {"model": NARROW},
    "small": {"model": NARROW, "training__local": {**ADAM, "epochs": 5}},
    "batches": {"training__local": {**SEVERAL, "batch_size": 10}},
    "wide": {**SQUARED, "model": WIDE},
}


@pytest.mark.parametrize("changes", OVERFLOWING.values(), ids=OVERFLOWING)
def test_nor_where_the_model_overflows_on_padding_alone(changes, monkeypatch) -> None:
    """A feature of 1 takes the large bias back wherever there is a row."""

    model = {"kind": "linear", **changes.get("model", {}), "start": {"artifact": "0" * 64}}
    found = []
    for rows in (16, 17):
        data = with_rows([*[16] * 9, rows])
        assert isinstance(data.features, np.ndarray)
        data.features[:, 0] = 1
        cell = table_cell(data, **{**changes, "model": model, "training__hypotheses": 1})
        start, (first, *behind) = np.full((1, cell.shape.n), 0.01, np.float32), cell.shape.layers
        assert first.bias is not None
        start[:, first.weights.start : first.weights.stop : first.weight_sizes[1]] = -1e20
        start[:, first.bias] = 0.5e20 if behind else 1e20
        for layer in behind[:1]:
            start[:, layer.weights] = 1e20
        found.append(figures_of_others(replace(cell, start=start), 9, monkeypatch))
    assert found[0] == found[1]
    for name in [name for name in found[0] if name.startswith("client ")]:
        learnt = np.frombuffer(found[0][name][1], np.float32)
        assert np.isfinite(learnt).all()
        assert (learnt != start[0]).any(), "a loss that is no number has a slope of 0"


@pytest.mark.parametrize("local", [SEVERAL, MANY], ids=str)
def test_nor_where_clients_come_one_after_the_other(local, monkeypatch) -> None:
    def cells(data: Federation) -> Cell:
        own = {**local, "batch_size": 2}
        given = {"training__local": own, "training__cohort": {"clients": 5}}
        return table_cell(one_by_one(data), model=WIDE, **given)

    assert_neighbours(cells, (UNEVEN, (12, 60)), monkeypatch)


@pytest.mark.parametrize("unit", ["record", "client"])
@pytest.mark.parametrize("model", [WIDE, NARROW_DEEP, BY_SIGMOID], ids=str)
def test_nor_where_records_have_budgets(model, unit, monkeypatch) -> None:
    source = {**RECORD_SPLIT, "validation_unit": unit}

    def cells(data: Federation) -> Cell:
        return records_cell(data, federation=source, model=model)

    assert_neighbours(cells, (UNEVEN + SHORT, (9, 400)), monkeypatch)
