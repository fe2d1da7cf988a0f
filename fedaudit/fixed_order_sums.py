"""Sums whose rounding does not depend on what else lies in the tensor."""

from torch import Tensor


def fixed_order_sum(values: Tensor, dim: int) -> Tensor:
    """The sum along `dim`, by halves in a fixed order, elementwise over all other axes.

    A library reduction may choose its order by the size of the other axes; then a client's sum
    would depend on how many clients and cells it is stacked with.
    """
    size = values.shape[dim]
    while size > 1:
        half = size // 2
        folded = values.narrow(dim, 0, half) + values.narrow(dim, half, half)
        if size % 2:
            folded.select(dim, 0).add_(values.select(dim, size - 1))
        values, size = folded, half
    return values.select(dim, 0)
