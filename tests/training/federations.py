"""Hand-made federations, and cells of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fedaudit.federations.federation import Attribute, ClientRows, Federation
from fedaudit.federations.mapped import first_rows
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.training.specs import groups_spec

TABLE = {"source": "table", "path": "a.csv", "client_key": "who", "target": "y"}
RECORD_SPLIT = {**TABLE, "validation_fraction": 0.4, "validation_unit": "record"}
IMAGES = {"source": "images", "path": "a.npz", "validation_fraction": 0.4}
RULE = {"sensitive": ["group"], "favourable": {"op": "ge", "value": 0.2}}
COUNTS = [1, 2, 9, 10, 30, 64, 65, 90, 130, 200, 300, 301, 700, *[5] * 12]
"""Rows of clients so unequal that they are computed by length."""


def padded(data: Federation, values: NDArray[Any]) -> NDArray[Any]:
    """Values [rows, ...] of all rows at their clients: [clients, longest, ...]."""
    found = np.zeros((data.clients, data.longest, *values.shape[1:]), dtype=values.dtype)
    found[data.client_of, np.arange(data.rows) - data.first[data.client_of]] = values
    return found


def federation(
    features: Sequence[ArrayLike],
    target: Sequence[ArrayLike],
    *,
    classes: tuple[str, ...] = (),
    groups: Sequence[ArrayLike] | None = None,
) -> Federation:
    """Clients from their rows: features [rows, features], target [rows], group codes [rows]."""
    counts = [len(np.atleast_1d(one)) for one in target]
    raw = np.concatenate([np.atleast_1d(one) for one in target]).astype(np.float64)
    attributes: tuple[Attribute, ...] = ()
    if groups is not None:
        codes = [np.broadcast_to(own, count) for own, count in zip(groups, counts, strict=True)]
        attributes = (Attribute("group", ("g1", "g2"), np.concatenate(codes).astype(np.int16)),)
    packed = np.concatenate([np.asarray(one, dtype=np.float32) for one in features])
    return Federation(
        features=packed,
        target=raw.astype(np.float32),
        raw_target=raw,
        first=first_rows(np.array(counts)),
        client_names=tuple(f"c{client:03d}" for client in range(len(counts))),
        feature_names=tuple(f"x{column}" for column in range(packed.shape[1])),
        target_name="y",
        target_scale=1.0,
        classes=classes,
        attributes=attributes,
        fingerprint="0" * 64,
        notes=(),
    )


def random_federation(
    *, clients: int = 30, max_rows: int = 7, width: int = 3, classes: int = 0, seed: int = 1
) -> Federation:
    """Clients with 1 to `max_rows` rows of two distributions, in two groups."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, max_rows + 1, clients)
    counts[0] = max_rows
    return two_distributions(random, counts.tolist(), width=width, classes=classes)


def two_distributions(
    random: np.random.Generator,
    counts: Sequence[int],
    *,
    width: int = 3,
    classes: int = 0,
    first_group: int = 0,
) -> Federation:
    """Clients with these numbers of rows, every other one of another distribution, in two groups,
    or from -1 on in none."""
    slopes = random.normal(size=(2, width, max(classes, 1)))
    features = [random.normal(size=(count, width)) for count in counts]
    target: list[NDArray[Any]] = []
    for client, inputs in enumerate(features):
        outputs = inputs @ slopes[client % 2] + 0.1 * random.normal(size=(len(inputs), 1))
        target.append(outputs.argmax(1) if classes else outputs[:, 0])
    groups = [random.integers(first_group, 2, count) for count in counts]
    names = tuple(f"class-{index}" for index in range(classes))
    return federation(features, target, classes=names, groups=groups)


def uneven(counts: list[int], *, classes: int = 0, seed: int = 1) -> Federation:
    """Clients with these numbers of rows, of two distributions and in two groups, in any order."""
    random = np.random.default_rng(seed)
    counts = [counts[place] for place in random.permutation(len(counts))]
    return two_distributions(random, counts, classes=classes, first_group=-1)


def one_by_one(data: Federation) -> Federation:
    """The same clients, to be computed client by client."""
    return replace(data, features=ClientRows(data.side_by_side, divisor=1.0, image=None))


ENGINES: dict[str, Callable[[], Federation]] = {
    "side by side": lambda: random_federation(clients=40, max_rows=9),
    "client by client": lambda: one_by_one(random_federation(clients=40, max_rows=9)),
    "by length": lambda: uneven(COUNTS),
}
"""A federation for each way in which clients are computed."""


def image_federation(*, clients: int = 12, max_rows: int = 9) -> Federation:
    """Clients with 1 to `max_rows` images of 28 by 28 bytes: a bright bar, whose place is the
    class. Every other client's images are turned, and in group g2."""
    random = np.random.default_rng(1)
    counts = random.integers(1, max_rows + 1, clients)
    counts[0] = max_rows
    target = [random.integers(0, 4, count) for count in counts]
    images = random.integers(0, 60, (counts.sum(), 28, 28), dtype=np.uint8)
    owner = np.repeat(np.arange(clients), counts)
    for image, label, client in zip(images, np.concatenate(target), owner, strict=True):
        image[4 + 5 * label : 7 + 5 * label] += 150
        if client % 2:
            image[:] = np.rot90(image)
    bare = federation(
        [np.zeros((count, 1)) for count in counts],
        target,
        classes=tuple(f"class-{index}" for index in range(4)),
        groups=[np.full(count, client % 2) for client, count in enumerate(counts)],
    )
    rows = ClientRows(values=images.reshape(len(images), -1), divisor=255.0, image=(28, 28, 1))
    return replace(bare, features=rows)


def table_cell(data: Federation, **changes: Any) -> Cell:
    """A cell of hand-made data: no mechanism and no fairness unless given."""
    given = {
        "federation": {**TABLE, "validation_fraction": 0.4},
        "model": {"kind": "linear"},
        "privacy": {"mechanism": "none"},
        "fairness": {},
        "training__cohort": {"clients": 6},
        "training__rounds": 8,
        **changes,
    }
    return Cell(parse_spec(groups_spec(**given)), data)


def image_cell(data: Federation, **changes: Any) -> Cell:
    """A cell of hand-made images: the convolutional network, two hypotheses, noise, two groups."""
    given = {
        "federation": IMAGES,
        "model": {"kind": "cnn-femnist"},
        "fairness": {"sensitive": ["group"], "favourable": {"op": "in", "value": ["class-0"]}},
        "training__loss": "cross-entropy",
        "training__cohort": {"clients": 3},
        "training__local": {"epochs": 1, "batch_size": 4, "step_size": 0.05},
        "training__rounds": 4,
        **changes,
    }
    return Cell(parse_spec(groups_spec(**given)), data)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Torch computes on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
        assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(before)
