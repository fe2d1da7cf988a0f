"""What a trainer's own accountant says, beside the ledger of the same training."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from fedaudit_client.adapters.plain import Ledger
from fedaudit_client.wire import Json

_AS_TIGHT = {"rdp": "rdp", "prv": "pld"}  # Opacus' `mechanism()`: the same bound in ledgers.
_ALIKE = 0.02  # Of an epsilon above 1, or as a number: other orders, and the 0.01 that `prv` adds.
_OF_OPACUS = "add-or-remove-one of a record that Poisson's coins draw"

Larger = Literal["ledger", "accountant", "neither"]


@dataclass(frozen=True)
class AccountantComparison:
    """Two figures of one training at one delta, and the neighbours that each is a figure of."""

    delta: float
    ledger: float | None
    accountant: float
    neighbours: tuple[str, str]
    """The ledger's, and the accountant's."""
    larger: Larger | None
    """None where the two are figures of different things."""
    reasons: tuple[str, ...]
    """What the two mean or count differently."""


def compare_accountant(trainer: Any, ledger: Ledger) -> AccountantComparison:
    """Compare Opacus' accountant, or the engine that has it, with a ledger, at the ledger's delta.

    Raises ValueError for an object without a `history`, and for a ledger without a delta.
    """
    own, shown = getattr(trainer, "accountant", trainer), ledger.current()
    if not hasattr(own, "history"):
        raise ValueError(f"{type(own).__name__} has no history of steps: give a PrivacyEngine")
    if shown["delta"] is None:
        raise ValueError(f"{shown['mechanism']} is counted without a delta: nothing to compare")
    counted: Counter[tuple[str, str]] = Counter()
    for noise, rate, steps in own.history:
        counted[f"{noise:.6g}", f"{rate:.6g}"] += steps
    theirs = float(own.get_epsilon(shown["delta"])) if counted else 0.0
    [figure] = shown["epsilon"]
    ours, reasons = figure["value"], _different_things(shown, figure)
    larger: Larger | None = None
    if not reasons:
        larger = "ledger" if ours > theirs else "accountant"
        if abs(ours - theirs) <= _ALIKE * max(1.0, ours):
            larger = "neither"
        reasons = _different_steps(ledger, shown, counted)
        if _AS_TIGHT.get(own.mechanism()) != figure["accountant"]:
            short = ", which may be too small" if own.mechanism() == "gdp" else ""
            reasons.append(f"bound: {figure['accountant']}, and {own.mechanism()}{short}")
    pair = (f"{shown['adjacency']} of a {shown['unit']}", _OF_OPACUS)
    return AccountantComparison(shown["delta"], ours, theirs, pair, larger, tuple(reasons))


def _different_things(shown: Json, figure: Json) -> list[str]:
    found = []
    if shown["unit"] != "record" or shown["adjacency"] != "add-or-remove-one":
        found.append(f"neighbours: {shown['adjacency']} of a {shown['unit']}, and {_OF_OPACUS}")
    if (shown["subjects"] or 0) > 1:
        found.append(f"clients: the ledger's figure is the largest of {shown['subjects']}")
    if figure["value"] is None:
        found.append(f"epsilon: none in the ledger, {figure['reason']}")
    return found


def _different_steps(ledger: Ledger, shown: Json, counted: Counter[tuple[str, str]]) -> list[str]:
    declared: Counter[tuple[str, str]] = Counter()
    for event in ledger.events:
        rate = f"{event.get('rate', 1):.6g}"
        declared[f"{event.get('noise_multiplier', 0):.6g}", rate] += event.get("steps", 1)
    found = []
    if unseen := shown["rounds"] - len(ledger.events):
        found.append(f"rounds: {unseen} were not declared by this `Ledger`")
    if declared.total() != counted.total():
        found.append(f"steps: {declared.total()} declared, and {counted.total()} counted")
    for place, name in enumerate(("noise", "rate")):
        ours, theirs = (sorted({step[place] for step in one}) for one in (declared, counted))
        if ours != theirs:
            found.append(f"{name}: {', '.join(ours)} declared, and {', '.join(theirs)} counted")
    if {rate for _, rate in declared} == {"1"} != {rate for _, rate in counted}:
        found.append("sampling: declared without Poisson's coins, so that nothing is amplified")
    return found
