"""Which cells are trained together, before any of them is."""

from fedaudit.federations.load import load_federation
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell, cells_at_once, stack_digest, stacks
from tests.workers.admission import spec_with


def cell(**changes: object) -> Cell:
    spec = parse_spec(spec_with(**changes))
    return Cell(spec, load_federation(spec, sources_dir=None))


def test_neighbours_of_one_shape_are_together_and_others_are_not() -> None:
    cells = [
        cell(seed=1),
        cell(seed=2, privacy__noise_multiplier=0.5, training__rounds=3),
        cell(seed=3, federation__rows_per_client=6),
        cell(seed=4),
    ]
    assert stacks(cells) == [[0, 1], [2], [3]]
    assert stacks([]) == []


def test_secret_noise_is_another_shape() -> None:
    assert stack_digest(cell()) != stack_digest(cell(privacy__noise="release"))


def test_as_many_as_fit_and_at_least_one() -> None:
    one = cell()
    assert cells_at_once(one, memory_bytes=1) == 1
    assert cells_at_once(one, memory_bytes=2**30) > 100 * cells_at_once(one, memory_bytes=2**20)


def test_clients_that_no_round_looks_at_take_no_memory() -> None:
    def fitting(**changes: object) -> int:
        return cells_at_once(cell(federation__validation_fraction=0.5, **changes))

    # Of 40 clients 20 are held out, and 7 train in a round.
    sampled = fitting(training__stopping={"validation_clients": 2})
    assert sampled > 2 * fitting() > 0
    assert sampled == fitting(training__stopping={"validation_clients": 7})
