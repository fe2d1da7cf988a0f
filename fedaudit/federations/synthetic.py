"""Synthetic federations of linear data (Galli et al., section 5.1; SN Computer Science 2023)."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedaudit.arrays import Floats, Floats32, Ints16
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.mapped import check_size
from fedaudit.federations.source_kind import LoadRequest, SourceKind
from fedaudit.randomness import CounterSource, Purpose, normals, permutation, uniforms
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.federation import SyntheticGroups, SyntheticLinear

_WORDS_AT_A_TIME = 2**22
THETAS = ((5.0, 6.0), (4.0, -4.5))
GROUPS = ("g1", "g2")
_ATTRIBUTE = "group"


def linear_federation(
    *,
    seed: int,
    component: Ints16,
    thetas: Sequence[Sequence[float]],
    shifts: Sequence[float],
    rows: int,
    where: str,
    groups: Ints16 | None,
    canonical: Mapping[str, Any],
) -> Federation:
    """Clients with `rows` rows each, client i drawn from distribution `component[i]`.

    x is standard normal (the paper leaves it open, and uniform x never reaches theta), u uniform
    on [0, 1), y = x . theta + shift + u. A client's rows depend on the seed, its index and its
    distribution, not on how many clients there are. `groups` [clients]: the group of each.
    `canonical` holds all that determines the data but the seed. Raises InvalidInputError at
    `where` where the data would be too large.
    """
    slopes = np.asarray(thetas, dtype=np.float64)
    clients = len(component)
    intercepts = np.asarray(shifts, dtype=np.float64)
    check_size(
        rows=clients * rows,
        features=slopes.shape[1],
        where=where,
        remedy="ask for fewer clients or fewer rows_per_client",
    )
    features, target = _draw(seed, component, slopes, intercepts, rows)
    return Federation(
        features=features.reshape(clients * rows, -1),
        target=target.ravel().astype(np.float32),
        raw_target=target.ravel(),
        first=np.arange(clients + 1) * rows,
        client_names=tuple(f"client-{index:07d}" for index in range(clients)),
        feature_names=tuple(f"x{index}" for index in range(1, slopes.shape[1] + 1)),
        target_name="y",
        target_scale=1.0,
        classes=(),
        attributes=()
        if groups is None
        else (Attribute(_ATTRIBUTE, GROUPS, np.repeat(groups, rows)),),
        fingerprint=hashlib.sha256(canonical_json({**canonical, "seed": seed})).hexdigest(),
        notes=(),
    )


def _draw(
    seed: int, component: Ints16, slopes: Floats, intercepts: Floats, rows: int
) -> tuple[Floats32, Floats]:
    """Features [clients, rows, features] and target [clients, rows], a chunk of clients at a time.

    Normal numbers are computed in float64 and the products summed in a fixed order, so that the
    data are the same on machines with other vector instructions but for rounding ties.
    """
    source = CounterSource(seed)
    width = slopes.shape[1]
    clients = len(component)
    count = rows * width + rows * width % 2  # Box and Muller need pairs
    features = np.empty((clients, rows, width), dtype=np.float32)
    target = np.empty((clients, rows), dtype=np.float64)
    step = max(1, _WORDS_AT_A_TIME // count)
    for start in range(0, clients, step):
        index = np.arange(start, min(start + step, clients))
        part = slice(start, start + step)
        words = source.words(purpose=Purpose.DATA, round_=0, counters=index, count=count)
        drawn = normals(words, dtype=np.float64)[:, : rows * width]
        features[part] = drawn.reshape(len(index), rows, width)
        u = uniforms(source.words(purpose=Purpose.DATA, round_=1, counters=index, count=rows))
        total = intercepts[component[part], None] + u
        for column in range(width):
            total += slopes[component[part], column, None] * features[part, :, column]
        target[part] = total
    return features, target


class SyntheticLinearKind(SourceKind[SyntheticLinear]):
    """Linear data around one parameter vector per distribution."""

    def load(self, asked: LoadRequest) -> Federation:
        """Client i holds rows of distribution i modulo their number, drawn by the experiment's
        seed.

        Raises InvalidInputError at /federation/clients where the data would be too large.
        """
        source = self._source
        canonical = source.model_dump(
            mode="json", include={"source", "clients", "rows_per_client", "thetas"}
        )
        components = len(source.thetas)
        return linear_federation(
            seed=asked.seed,
            component=(np.arange(source.clients) % components).astype(np.int16),
            thetas=source.thetas,
            shifts=[0.0] * components,
            rows=source.rows_per_client,
            where="/federation/clients",
            groups=None,
            canonical=canonical,
        )


class SyntheticGroupsKind(SourceKind[SyntheticGroups]):
    """A majority and a minority whose targets differ by a shift."""

    def load(self, asked: LoadRequest) -> Federation:
        """A majority with y = x . theta_1 + u and a minority with y = x . theta_2 + shift + u,
        drawn by the experiment's seed.

        The attribute `group` is the distribution's name; with `independent_attribute` it is dealt
        out at random, in groups of the same sizes, so that a gap between groups says nothing about
        personalisation. Raises InvalidInputError at /federation/clients_per_group where the data
        would be too large.
        """
        source = self._source
        component = np.repeat(np.arange(2), source.clients_per_group).astype(np.int16)
        canonical = source.model_dump(mode="json", exclude={"validation_fraction"})
        members = component
        if source.independent_attribute:
            order = permutation(len(component), seed=asked.seed, purpose=Purpose.ATTRIBUTE)
            members = component[order]
        return linear_federation(
            seed=asked.seed,
            component=component,
            thetas=THETAS,
            shifts=[0.0, source.shift],
            rows=source.rows_per_client,
            where="/federation/clients_per_group",
            groups=members if _ATTRIBUTE in asked.fairness.sensitive else None,
            canonical=canonical,
        )
