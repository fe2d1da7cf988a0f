"""Rows that `fairness.exclude` leaves out of every figure, and which may still train.

Rows of held-out clients serve figures alone, so they are removed. A client keeps its rows where it
would have none: it is not scored then. Where rows instead of clients are held out, those held out
stay in the arrays, and neither train nor validate.
"""

from dataclasses import replace

import numpy as np

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import left_out_rows
from fedaudit.federations.split import split_clients
from fedaudit.spec.experiment import ExperimentSpec

_WHERE = "/fairness/exclude"


def without_left_out(spec: ExperimentSpec, federation: Federation) -> Federation:
    """The federation as the spec's figures see it.

    Raises InvalidInputError at /fairness/exclude where no client is left to be scored, or the data
    are too large to be taken apart in memory.
    """
    left_out = left_out_rows(federation.attributes, spec.fairness)
    if left_out is None:
        return federation
    federation, source = replace(federation, left_out=left_out), spec.federation
    if source.holds_out_rows:
        return federation
    if federation.is_large:
        raise error_at(
            _WHERE,
            "these data are read from disk, and rows cannot be left out there; take the rows out "
            "of the file, or join their value into another group by `groups`",
        )
    split = split_clients(
        federation.clients, validation_fraction=source.validation_fraction, seed=spec.seed
    )
    kept = np.bincount(federation.client_of[~left_out], minlength=federation.clients)
    if not kept[split.validation].any():
        raise error_at(
            _WHERE,
            "leaves no row of the clients that are held out; leave fewer values out, or hold out "
            "more clients by `validation_fraction`",
        )
    held_out = np.zeros(federation.clients, dtype=np.bool_)
    held_out[split.validation] = True
    of_scored = (held_out & (kept > 0))[federation.client_of]
    return federation.without_rows(left_out & of_scored)
