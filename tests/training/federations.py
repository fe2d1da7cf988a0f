"""Hand-made federations, and cells of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.federations.federation import Attribute, Federation
from fedaudit.spec.parse import parse_spec
from fedaudit.training.cell import Cell
from tests.training.specs import groups_spec

TABLE = {"source": "table", "path": "a.csv", "client_key": "who", "target": "y"}


def federation(
    features: Sequence[ArrayLike],
    target: Sequence[ArrayLike],
    *,
    classes: tuple[str, ...] = (),
    scale: float = 1.0,
    groups: Sequence[ArrayLike] | None = None,
) -> Federation:
    """Clients from their rows: features [rows, features], target [rows], group codes [rows]."""
    counts = [len(np.atleast_1d(one)) for one in target]
    rows, width = max(counts), np.asarray(features[0]).shape[1]
    shape = (len(target), rows)
    packed = np.zeros((*shape, width), dtype=np.float32)
    raw = np.zeros(shape)
    codes = np.full(shape, -1, dtype=np.int16)
    for client, count in enumerate(counts):
        packed[client, :count] = features[client]
        raw[client, :count] = target[client]
        if groups is not None:
            codes[client, :count] = groups[client]
    attributes = () if groups is None else (Attribute("group", ("g1", "g2"), codes),)
    return Federation(
        features=packed,
        target=(raw / scale).astype(np.float32),
        raw_target=raw,
        mask=np.arange(rows) < np.array(counts)[:, None],
        client_names=tuple(f"c{client:03d}" for client in range(len(counts))),
        feature_names=tuple(f"x{column}" for column in range(width)),
        target_name="y",
        target_scale=scale,
        classes=classes,
        attributes=attributes,
        fingerprint="0" * 64,
        truth=None,
        notes=(),
    )


def random_federation(
    *, clients: int = 30, most_rows: int = 7, width: int = 3, classes: int = 0, seed: int = 1
) -> Federation:
    """Clients with 1 to `most_rows` rows of two distributions, in two groups."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, most_rows + 1, clients)
    counts[0] = most_rows
    slopes = random.normal(size=(2, width, max(classes, 1)))
    features = [random.normal(size=(count, width)) for count in counts]
    target: list[NDArray[Any]] = []
    for client, inputs in enumerate(features):
        outputs = inputs @ slopes[client % 2] + 0.1 * random.normal(size=(len(inputs), 1))
        target.append(outputs.argmax(1) if classes else outputs[:, 0])
    groups = [random.integers(0, 2, count) for count in counts]
    names = tuple(f"class-{index}" for index in range(classes))
    return federation(features, target, classes=names, groups=groups)


def table_cell(data: Federation, **changes: Any) -> Cell:
    """A cell of hand-made data: no mechanism and no fairness unless told otherwise."""
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
