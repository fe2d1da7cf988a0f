"""What membership inference asks of the data. No torch."""

from typing import assert_never

from fedaudit.attacks.membership.attacked_rows import trained_rows
from fedaudit.attacks.membership.shadow_design import shadow_training_clients
from fedaudit.spec.attacks.membership_spec import MIN_SHADOWS_EACH, MembershipSpec
from fedaudit.spec.errors import FieldError
from fedaudit.training.base.cell import Cell

MIN_ROWS = 30
"""Members, and non-members: with fewer an AUC is mostly chance."""
MIN_CLIENTS = 10
"""Of whom shadow runs draw halves: with fewer there are hardly different ones."""


def faults(spec: MembershipSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    """Every reason why the attack cannot be carried out on the cell's data."""
    found = []
    if cell.spec.fairness.noise is not None:
        message = (
            "rates of this attack follow from the held-out people exactly, and `fairness.noise` "
            "promises that nothing but counts with noise does; leave one of the two out"
        )
        found.append(FieldError(f"{pointer}/kind", message, of_spec=True))
    found += _row_faults(cell)
    if spec.shadows is not None and not cell.spec.federation.holds_out_rows:
        found += _client_faults(spec, cell, pointer=pointer)
    if spec.shadows is not None and not found:
        found += _balance_faults(spec, cell, pointer=pointer)
    return found


def least_shadows_each(spec: MembershipSpec) -> int:
    """Shadow runs that a row must be in, and outside of, at least."""
    match spec.method:
        case "threshold":
            return 0
        case "likelihood-ratio":
            return MIN_SHADOWS_EACH
        case "relative":
            return 1
        case _:
            assert_never(spec.method)


def _row_faults(cell: Cell) -> list[FieldError]:
    trained = int(trained_rows(cell).sum())
    held_out = cell.federation.rows - trained
    if min(trained, held_out) >= MIN_ROWS:
        return []
    # Without numbers: over many seeds they would give the sizes of clients.
    which = "train" if trained < held_out else "are held out"
    message = (
        f"too few rows {which}; to tell members from others this attack needs {MIN_ROWS} that "
        "train and as many that do not, so choose a share in between, or data with more rows"
    )
    return [FieldError("/federation/validation_fraction", message)]


def _client_faults(spec: MembershipSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    clients, k = cell.federation.clients, cell.spec.training.hypotheses
    if clients < MIN_CLIENTS:
        message = (
            "shadow runs train on halves of the clients, and so few clients have hardly "
            f"different halves; use data with {MIN_CLIENTS} clients or more, or the method "
            "`threshold`, which needs no shadow runs"
        )
        return [FieldError(f"{pointer}/shadows", message, of_spec=True)]
    half = shadow_training_clients(clients)
    if half < k:
        message = (
            f"a shadow run trains on half of the clients, from whom {k} hypotheses cannot "
            "be clustered; ask for fewer `training.hypotheses`, or choose the method `threshold`"
        )
        return [FieldError(f"{pointer}/shadows", message, of_spec=True)]
    return []


def _balance_faults(spec: MembershipSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    """Whether so many random halves leave hardly anybody with too few on either side."""
    shadows, least = spec.shadows or 0, least_shadows_each(spec)
    federation = cell.federation
    units = federation.rows if cell.spec.federation.holds_out_rows else federation.clients
    # Only now: the API, which asks as well, starts without it.
    from scipy.special import bdtr

    expected = 2 * units * float(bdtr(least - 1, shadows, 0.5))
    if expected <= 1:
        return []
    message = (
        f"of {shadows} random halves some of so many clients or records would be in fewer than "
        f"{least}, or outside of fewer; ask for more shadow runs, 128 or 256"
    )
    return [FieldError(f"{pointer}/shadows", message)]
