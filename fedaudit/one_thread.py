"""One torch thread, where a figure must not depend on how many there are."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Within, torch computes on one thread; afterwards on as many as before.

    What a large sum, convolution or matrix product adds up in which order depends on their number.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
