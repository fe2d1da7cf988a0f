"""Which images are attacked, as a federation of the clients whose updates are reconstructed."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.gradient_leakage.requirements_of_gradient_leakage import attackable_clients
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.randomness import Purpose, Source, wide_uniforms
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.training.base.cell import Cell


@dataclass(frozen=True)
class AttackedImages:
    """Some images of training clients, a few of one client for each attacked update."""

    federation: Federation
    """A client for each attacked update, with its images alone."""
    rows: NDArray[np.int64]
    """[updates, images]: where they lie in the run's federation."""
    size: tuple[int, int, int]
    """Height, width, channels."""

    @cached_property
    def pixels(self) -> NDArray[np.float64]:
        """[updates, images, height, width, channels], from 0 to 1."""
        features = self.federation.features
        assert isinstance(features, ClientRows)
        values = features.values.astype(np.float64) / features.divisor
        pixels: NDArray[np.float64] = values.reshape(*self.rows.shape, *self.size)
        return pixels

    @property
    def labels(self) -> NDArray[np.int64]:
        """[updates, images]: their classes."""
        return self.federation.target.astype(np.int64).reshape(self.rows.shape)


def draw_images(cell: Cell, spec: GradientLeakageSpec, source: Source) -> AttackedImages:
    """Images drawn at random, from as many training clients as there are before one has a second
    turn. Raises ValueError where the data lack them (`requirements_of_gradient_leakage.faults`)."""
    federation, features = cell.federation, cell.federation.features
    if not isinstance(features, ClientRows) or features.image is None:
        raise ValueError("these rows are no images")
    rows = _drawn_rows(federation, attackable_clients(cell), spec, source)
    place = rows.ravel()
    own = replace(
        federation,
        features=replace(features, values=features.values[place]),
        target=federation.target[place],
        raw_target=federation.raw_target[place],
        first=np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1],
        client_names=tuple(f"{update:06d}" for update in range(len(rows))),
        attributes=(),
        record_budgets=None,
        row_numbers=None,
        record_keys=None,
    )
    return AttackedImages(own, rows, features.image)


def _drawn_rows(
    federation: Federation, clients: NDArray[np.int64], spec: GradientLeakageSpec, source: Source
) -> NDArray[np.int64]:
    """[updates, images]: every client's images in a random order, a turn of each client after the
    other's."""
    together = spec.images_per_update
    turns = []
    for client in clients.tolist():
        own = federation.own(client)
        words = source.wide_words(
            purpose=Purpose.ATTACK, round_=0, counters=client, count=own.stop - own.start + 1
        )
        keys = wide_uniforms(words).ravel()
        order = own.start + np.argsort(keys[1:], kind="stable")
        whole = order[: len(order) // together * together].reshape(-1, together)
        turns += [(turn, float(keys[0]), rows) for turn, rows in enumerate(whole)]
    updates = spec.images // together
    if len(turns) < updates:
        raise ValueError("the training clients have too few images")
    turns.sort(key=lambda one: one[:2])
    return np.stack([rows for _, _, rows in turns[:updates]])
