"""The fairness experiment on synthetic data (Galli et al., SN Computer Science 2023)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.packing import check_size
from fedaudit.federations.source_kind import LoadRequest, SourceKind
from fedaudit.federations.synthetic.linear_data import linear_federation
from fedaudit.randomness import Purpose, permutation
from fedaudit.spec.federation import SyntheticGroups

THETAS = ((5.0, 6.0), (4.0, -4.5))
GROUPS = ("g1", "g2")
_ATTRIBUTE = "group"


class SyntheticGroupsKind(SourceKind):
    """A majority and a minority whose targets differ by a shift."""

    def __init__(self, source: SyntheticGroups) -> None:
        self._source = source

    def load(self, asked: LoadRequest) -> Federation:
        """Drawn by the experiment's seed. Raises InvalidInputError."""
        return load_synthetic_groups(
            self._source, sensitive=asked.fairness.sensitive, seed=asked.seed
        )


def load_synthetic_groups(
    source: SyntheticGroups, *, sensitive: Sequence[str], seed: int
) -> Federation:
    """A majority with y = x . theta_1 + u and a minority with y = x . theta_2 + shift + u.

    The attribute `group` is the distribution's name; with `independent_attribute` it is dealt out
    at random, in groups of the same sizes, so that a gap between groups says nothing about
    personalisation. Raises InvalidInputError at /federation/clients_per_group where the data
    would be too large.
    """
    check_size(
        rows=sum(source.clients_per_group) * source.rows_per_client,
        features=len(THETAS[0]),
        where="/federation/clients_per_group",
        remedy="ask for fewer clients or fewer rows_per_client",
    )
    component = np.repeat(np.arange(2), source.clients_per_group).astype(np.int16)
    canonical = source.model_dump(mode="json", exclude={"validation_fraction"})
    attribute = _attribute(source, component, seed=seed)
    return linear_federation(
        seed=seed,
        component=component,
        thetas=THETAS,
        shifts=[0.0, source.shift],
        rows=source.rows_per_client,
        attributes=tuple(attribute for name in sensitive if name == _ATTRIBUTE),
        canonical=canonical,
    )


def _attribute(source: SyntheticGroups, component: NDArray[np.int16], *, seed: int) -> Attribute:
    members = component
    if source.independent_attribute:
        members = component[permutation(len(component), seed=seed, purpose=Purpose.ATTRIBUTE)]
    rows = source.rows_per_client
    return Attribute(_ATTRIBUTE, GROUPS, np.repeat(members, rows))
