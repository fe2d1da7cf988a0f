"""The first experiment of Galli et al. (section 5.1): linear data from a few distributions."""

import numpy as np

from fedaudit.federations.federation import Federation
from fedaudit.federations.packing import check_size
from fedaudit.federations.source_kind import LoadRequest, SourceKind
from fedaudit.federations.synthetic.linear_data import linear_federation
from fedaudit.spec.federation import SyntheticLinear


class SyntheticLinearKind(SourceKind):
    """Linear data around one parameter vector per distribution."""

    def __init__(self, source: SyntheticLinear) -> None:
        self._source = source

    def load(self, asked: LoadRequest) -> Federation:
        """Drawn by the experiment's seed. Raises InvalidInputError."""
        return load_synthetic_linear(self._source, seed=asked.seed)


def load_synthetic_linear(source: SyntheticLinear, *, seed: int) -> Federation:
    """Client i holds rows of distribution i modulo their number: half each for two distributions.

    Raises InvalidInputError at /federation/clients where the data would be too large.
    """
    check_size(
        rows=source.clients * source.rows_per_client,
        features=len(source.thetas[0]),
        where="/federation/clients",
        remedy="ask for fewer clients or fewer rows_per_client",
    )
    canonical = source.model_dump(
        mode="json", include={"source", "clients", "rows_per_client", "thetas"}
    )
    components = len(source.thetas)
    return linear_federation(
        seed=seed,
        component=(np.arange(source.clients) % components).astype(np.int16),
        thetas=source.thetas,
        shifts=[0.0] * components,
        rows=source.rows_per_client,
        attributes=(),
        canonical=canonical,
    )
