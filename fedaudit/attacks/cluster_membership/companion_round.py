"""A round from the trained hypotheses, beside the run: every training client makes one upload.

Choice, local update, noise and clustering are those of training itself (`fedaudit.training`), at
any noise multiplier, in cohorts of the run's size. Seed and noise are the companion's own.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.spec.fairness import Fairness
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, cohort_clients, split_cells
from fedaudit.training.base.cohort import Block
from fedaudit.training.engine import build_engine
from fedaudit.training.stacked.stack_round import Cohort, Engine, RoundResult


@dataclass(frozen=True, eq=False)
class Uploads:
    """What the server got, and what it made of it; arrays [clients]."""

    client: NDArray[np.int64]
    """Indices in the federation."""
    chosen: NDArray[np.int64]
    """The hypothesis that the client started from. Confidential."""
    nearest: NDArray[np.int64]
    """The hypothesis nearest to the upload."""
    assigned: NDArray[np.int64]
    """The cluster that the server put it into."""
    radii: NDArray[np.float64]
    """[clients, parts]: of the noise."""
    ratio: NDArray[np.float64]
    """The distance of the upload to the hypothesis of its cluster, over that hypothesis's distance
    to the nearest other."""


class Companion:
    """Plays uploads of some clients from trained hypotheses."""

    def __init__(
        self,
        cell: Cell,
        hypotheses: NDArray[np.float32],
        *,
        noise_multiplier: float,
        seed: int,
        device: str,
    ) -> None:
        """`hypotheses` [k, n]. Raises ValueError for a mechanism other than `laplace-l2`."""
        spec = cell.spec
        if not isinstance(spec.privacy, LaplaceL2):
            raise ValueError(f"{spec.privacy.mechanism} sends no uploads with Laplace noise")
        changed = {"noise_multiplier": noise_multiplier, "noise": "simulation"}
        own = replace(
            cell,
            federation=replace(cell.federation, attributes=()),
            spec=spec.model_copy(
                update={
                    "seed": seed,
                    "privacy": spec.privacy.model_copy(update=changed),
                    "fairness": Fairness(),
                }
            ),
        )
        self._size = cohort_clients(own)
        self._theta = torch.from_numpy(hypotheses)[None].to(device)
        self._engine: Engine = build_engine([own], split_cells([own]), torch.device(device))
        self._engine.arrange([0])

    @property
    def cohort_size(self) -> int:
        """How many clients upload in a round."""
        return self._size

    def play(self, clients: NDArray[np.int64], *, round_: int) -> Uploads:
        """The uploads of at most `cohort_size` clients; those that are withheld are left out."""
        missing = self._size - len(clients)
        # A cohort has its size: a place that nobody fills is not allowed to send.
        padded = np.concatenate([clients, np.repeat(clients[:1], missing)])[None]
        allowed = (np.arange(self._size) < len(clients))[None]
        rounds = np.array([[round_]])
        block = Block(rounds=rounds, cohort=padded[None], drawn=None, validation=None)
        with torch.no_grad():
            self._engine.draw_noise(block)
            noise = None if block.noise is None else block.noise[0]
            cohort = Cohort(rounds=rounds[0], clients=padded, allowed=allowed, noise=noise)
            [played] = self._engine.play(self._theta, [cohort], None)
            return _uploads(padded[0], played, self._theta[0])


def _uploads(clients: NDArray[np.int64], played: RoundResult, theta: torch.Tensor) -> Uploads:
    sent = played.sent
    if sent is None or sent.radii is None:
        raise ValueError("a round of clients that protect themselves has uploads with radii")
    present = sent.present[0].cpu().numpy()
    uploads = sent.uploads[0].double().cpu().numpy()[present]
    points = theta.double().cpu().numpy()
    distances = np.stack([np.linalg.norm(uploads - point, axis=1) for point in points], axis=1)
    between = np.stack([np.linalg.norm(points - point, axis=1) for point in points])
    np.fill_diagonal(between, np.inf)
    assigned = sent.assigned[0].cpu().numpy()[present]
    own = np.take_along_axis(distances, assigned[:, None], axis=1)[:, 0]
    with np.errstate(divide="ignore"):
        ratio = own / between.min(1)[assigned]
    radii = sent.radii[0].cpu().numpy()
    return Uploads(
        client=clients[present],
        chosen=sent.chosen[0].cpu().numpy()[present],
        nearest=distances.argmin(1),
        assigned=assigned,
        radii=radii.reshape(len(radii), -1)[present],
        ratio=ratio,
    )


def joined_uploads(parts: list[Uploads]) -> Uploads:
    """Those of several rounds."""
    return Uploads(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])}
    )
