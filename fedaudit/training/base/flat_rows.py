"""Some rows of a federation end to end, on a device."""

from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.federations.federation import ClientRows, Federation


def flat_features(federation: Federation, place: NDArray[np.int64], device: torch.device) -> Tensor:
    """The features of the rows that lie at `place` [rows]: float32 [rows, features]."""
    kept = federation.features
    match kept:
        case ClientRows():
            own = kept.values[place]
            return torch.from_numpy(np.divide(own, kept.divisor, dtype=np.float32)).to(device)
        case np.ndarray():
            return torch.from_numpy(federation.side_by_side[place]).to(device)
        case _:
            assert_never(kept)


def flat_target(federation: Federation, place: NDArray[np.int64], device: torch.device) -> Tensor:
    """float32 [rows]; the class index for classification."""
    return torch.from_numpy(federation.target[place]).to(device)
