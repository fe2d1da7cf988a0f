"""Violations that a replay does not find, so that nobody takes its silence for more than it is."""

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from fedaudit.privacy.noise.laplace import Sanitiser
from fedaudit.runs import blocks
from tests.attacks.zoo.cells import NOISED_COUNTS, central, fixed
from tests.attacks.zoo.violations import Sabotage

MISSED: dict[str, tuple[Any, Sabotage]] = {}


def missed(cell: Any) -> Any:
    """Keeps a sabotage by the first line of its docstring."""

    def keep(sabotage: Sabotage) -> Sabotage:
        MISSED[(sabotage.__doc__ or "").splitlines()[0].rstrip(".")] = cell, sabotage
        return sabotage

    return keep


@missed(fixed)
def keep_noise_in_single_precision(patch: pytest.MonkeyPatch) -> None:
    """Noise is rounded to float32 before it is added, and its low bits tell what it hides."""
    real = Sanitiser.release

    def release(self: Any, start: Tensor, update: Tensor, unit: Tensor, **given: Any) -> Tensor:
        return real(self, start, update, unit.float().double(), **given)

    patch.setattr(Sanitiser, "release", release)


@missed(lambda: central(fairness=NOISED_COUNTS))
def report_counts_without_noise(patch: pytest.MonkeyPatch) -> None:
    """The counts of the report, which is made once a run has ended, have no noise."""
    patch.setattr(blocks, "drawn_integers", lambda *_, shape, **__: np.zeros(shape, dtype=np.int64))
