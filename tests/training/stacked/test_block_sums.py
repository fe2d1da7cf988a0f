"""Sums of what was sent for each hypothesis."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.training.stacked.server import block_sums


@given(
    st.integers(1, 3),
    st.integers(1, 20),
    st.integers(1, 4),
    st.integers(0, 20),
    st.integers(0, 2**31),
)
def test_sums_are_those_of_a_loop_and_padding_moves_no_bit(
    cells: int, clients: int, k: int, more: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    updates = torch.randn(cells, clients, 5, generator=random)
    present = torch.rand(cells, clients, generator=random) < 0.7
    chosen = torch.randint(k, (cells, clients), generator=random)
    found = block_sums(updates, present, chosen, hypotheses=k)
    expected = torch.zeros(cells, k, 5, dtype=torch.float64)
    for cell in range(cells):
        for client in range(clients):
            if present[cell, client]:
                expected[cell, chosen[cell, client]] += updates[cell, client]
    torch.testing.assert_close(found, expected)
    padded = block_sums(
        torch.nn.functional.pad(updates, (0, 0, 0, more), value=torch.nan),
        torch.nn.functional.pad(present, (0, more)),
        torch.nn.functional.pad(chosen, (0, more)),
        hypotheses=k,
    )
    assert torch.equal(padded, found)
    alone = block_sums(updates[:1], present[:1], chosen[:1], hypotheses=k)
    assert torch.equal(alone[0], found[0])


def test_one_client_among_ten_thousand_moves_a_sum_by_its_own_norm() -> None:
    random = torch.Generator().manual_seed(3)
    updates = torch.nn.functional.normalize(torch.randn(1, 10_000, 8, generator=random), dim=-1)
    everyone = torch.ones(1, 10_000, dtype=torch.bool)
    chosen = torch.zeros(1, 10_000, dtype=torch.int64)
    others = everyone.clone()
    others[0, 17] = False
    moved = block_sums(updates, everyone, chosen, hypotheses=1) - block_sums(
        updates, others, chosen, hypotheses=1
    )
    norm = torch.linalg.vector_norm(updates[0, 17].double())
    assert abs(torch.linalg.vector_norm(moved) / norm - 1) < 1e-10
