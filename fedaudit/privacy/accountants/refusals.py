"""Which pairs of sampling and adjacency have a bound, and which pair to take instead."""

from fedaudit.privacy.events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    PoissonSampled,
    TwoStage,
)

METRIC_REFUSAL = (
    "metric privacy ('laplace-l2') is counted as leakage, which is no epsilon of an (epsilon, "
    "delta) guarantee; keep it apart (fedaudit.privacy.metric)"
)


def sampled_gaussian_refusal(
    event: Event, *, accountant: str, adjacency: Adjacency, fixed_size: bool
) -> str | None:
    """Why an accountant of sampled Gaussian sums cannot take an event; None where it can.

    `fixed_size`: whether it has a bound for samples of a fixed size.
    """
    reason: str | None
    match event:
        case Gaussian():
            reason = None
        case PoissonSampled(event=Gaussian()):
            reason = _poisson(adjacency)
        case FixedSizeSampled(event=Gaussian()):
            reason = _fixed_size(accountant, adjacency, offered=fixed_size)
        case PoissonSampled() | FixedSizeSampled():
            reason = (
                f"{accountant!r} knows samples of a 'gaussian' event only, not of a "
                f"{event.event.kind!r} one"
            )
        case TwoStage():
            reason = (
                f"{accountant!r} has no bound for the 'two-stage' event; use the accountant "
                "'two-stage' under 'add-or-remove-one'"
            )
        case LaplaceL2():
            reason = METRIC_REFUSAL
        case _:
            reason = f"{accountant!r} does not know an event of kind {event.kind!r}"
    return reason


def _poisson(adjacency: Adjacency) -> str | None:
    if adjacency == "add-or-remove-one":
        return None
    return (
        f"Poisson sampling is accounted for under 'add-or-remove-one', not {adjacency!r}: change "
        "the adjacency, or draw samples of a fixed size and use 'rdp'"
    )


def _fixed_size(accountant: str, adjacency: Adjacency, *, offered: bool) -> str | None:
    if adjacency != "replace-one":
        return (
            f"a sample of a fixed size is accounted for under 'replace-one', not {adjacency!r}: "
            "change the adjacency and use 'rdp', or sample by Poisson coins"
        )
    if not offered:
        return (
            f"{accountant!r} has no bound for a sample of a fixed size; use 'rdp' under "
            "'replace-one', or sample by Poisson coins under 'add-or-remove-one'"
        )
    return None
