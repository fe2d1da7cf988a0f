"""Which pairs of sampling and adjacency have a bound, and which pair to use instead."""

from typing import assert_never

from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Composed,
    DiscreteLaplace,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
    TwoStage,
    known_event,
)

METRIC_REFUSAL = (
    "metric privacy ('laplace-l2') is counted as leakage, which is no epsilon of an (epsilon, "
    "delta) guarantee; keep it apart (fedaudit.privacy.metric.leakage)"
)


def sampled_gaussian_refusal(
    event: Event, *, accountant: str, adjacency: Adjacency, fixed_size: bool
) -> str | None:
    """Why an accountant of sampled Gaussian sums does not support an event; None where it does.

    `fixed_size`: whether it has a bound for samples of a fixed size.
    """
    reason: str | None
    known = known_event(event)
    match known:
        case Gaussian():
            reason = None
        case PoissonSampled(event=Gaussian()):
            reason = _poisson(adjacency)
        case FixedSizeSampled(event=Gaussian()):
            reason = _fixed_size(accountant, adjacency, offered=fixed_size)
        case PoissonSampled() | FixedSizeSampled():
            reason = (
                f"{accountant!r} knows samples of a 'gaussian' event only, not of a "
                f"{known.event.kind!r} one"
            )
        case TwoStage():
            reason = (
                f"{accountant!r} has no bound for the 'two-stage' event; use the accountant "
                "'two-stage' under 'add-or-remove-one'"
            )
        case DiscreteLaplace():
            reason = (
                f"{accountant!r} knows Gaussian noise only; epsilons of 'discrete-laplace' add up"
            )
        case LaplaceL2():
            reason = METRIC_REFUSAL
        case NonPrivate() | Composed():
            reason = f"{accountant!r} does not know an event of kind {event.kind!r}"
        case _:
            assert_never(known)
    return reason


def _poisson(adjacency: Adjacency) -> str | None:
    match adjacency:
        case "add-or-remove-one":
            return None
        case "replace-one":
            return (
                f"Poisson sampling is accounted for under 'add-or-remove-one', not {adjacency!r}: "
                "change the adjacency, or draw samples of a fixed size and use 'rdp'"
            )
        case _:
            assert_never(adjacency)


def _fixed_size(accountant: str, adjacency: Adjacency, *, offered: bool) -> str | None:
    match adjacency:
        case "replace-one":
            pass
        case "add-or-remove-one":
            return (
                "a sample of a fixed size is accounted for under 'replace-one', not "
                f"{adjacency!r}: change the adjacency and use 'rdp', or sample by Poisson coins"
            )
        case _:
            assert_never(adjacency)
    if not offered:
        return (
            f"{accountant!r} has no bound for a sample of a fixed size; use 'rdp' under "
            "'replace-one', or sample by Poisson coins under 'add-or-remove-one'"
        )
    return None
