"""A checkpoint with many fields is read back: their names and types exceed numpy's own limit."""

import numpy as np

from fedaudit.training.stacked.stack_state import packed, unpacked


def test_a_checkpoint_of_very_many_fields_is_read_back() -> None:
    given = {f"the moments of layer {n}": np.full(3, n, dtype=np.float32) for n in range(400)}
    found = unpacked(packed(given))
    assert found.keys() == given.keys()
    assert all(np.array_equal(found[name], value) for name, value in given.items())
