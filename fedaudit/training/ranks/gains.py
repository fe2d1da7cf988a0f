"""Which models are worth spreading over processes. No torch.

What clients compute by themselves is spread; the first rank alone protects their uploads, clusters
and averages them, and that takes a time by the number of parameters. A helper imports torch and
gets the data before it computes anything. `python -m benchmarks.ranks` measures both.
"""

from fedaudit.training.base.cell import Cell, expected_cohort, is_client_by_client

_LEAST_PRODUCTS_OF_A_PARAMETER = 1_000.0
"""Products that a client's local steps take for each parameter: with so many, the steps take
about as long as what the first rank does with the upload."""
_LEAST_PRODUCTS = 1e12
"""Of a whole run: about half a minute of one core."""
_PASSES = 3
"""A step computes the outputs, and the slopes of weights and of inputs."""


def gains_from_helpers(cell: Cell) -> bool:
    """Whether rounds of this cell are faster with helpers, and by more than their start takes."""
    if not is_client_by_client(cell):
        return False
    products = _rows_of_steps(cell) * _PASSES * cell.shape.products
    run = cell.spec.training.rounds_played * expected_cohort(cell) * products
    return products >= _LEAST_PRODUCTS_OF_A_PARAMETER * cell.shape.n and run >= _LEAST_PRODUCTS


def _rows_of_steps(cell: Cell) -> float:
    """The rows that all local steps of an average client take together."""
    local, rows = cell.spec.training.local, cell.federation.rows / cell.federation.clients
    if local.steps is None:
        return rows * (local.epochs or 1)
    return local.steps * (rows if local.batch_size is None else min(rows, local.batch_size))
