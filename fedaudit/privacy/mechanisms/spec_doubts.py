"""What can be run and protects no one, or is asked for in vain: the warnings before a run."""

from collections.abc import Mapping

from fedaudit.number_text import at_most
from fedaudit.privacy.guarantees.cost_sentences import MOST, cost_level, odds_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import OFTEN_RIGHT, Intervals

_EXPONENTS = {
    "leakage_max",
    "leakage_median",
    "log_ratio_max",
    "epsilon_max",
    "sweep_epsilon_max",
    "sweep_log_ratio_max",
}
"""Figures of gates that bound the odds of a guess, as `cost_level` measures them."""


def spec_doubts(
    spec: ExperimentSpec,
    *,
    training_clients: int,
    rows: int,
    costs: Mapping[str, float] = {},
    mean: float = 1.0,
) -> list[str]:
    """One sentence for each bound that protects no one or is not met, and each field without
    effect.

    `rows`: of all clients. A delta is compared with the units of the guarantee that may train.
    `costs`: what all rounds may cost, by the figures of gates; `mean`: the mean client's share.
    """
    delta, unit = getattr(spec.privacy, "delta", None), mechanism_of(spec).facts.unit
    found = []
    for position, gate in enumerate(spec.gates):
        worst = costs.get(gate.figure, 0.0)
        if gate.op == "le" and worst * mean > gate.value:
            found.append(
                f"gates[{position}].value: {gate.figure} may come to {at_most(worst, digits=4)} "
                f"in the worst case, and would then miss a gate of {gate.value:g}; take more noise"
            )
        # A gate that is content with simulated noise says by itself that it asks for no protection.
        if gate.figure not in _EXPONENTS or gate.op != "le" or gate.allow_simulation:
            continue
        if gate.value > 0 and cost_level(gate.value, delta=delta or 0.0) == "nothing":
            found.append(
                f"gates[{position}].value: {gate.figure} <= {gate.value:g} is too large to protect "
                f"anyone, as the odds of a guess may change by a factor of "
                f"{odds_words(gate.value)}; take at most {MOST:g}, or {OFTEN_RIGHT:g} where a "
                "guess shall be right at most 95% of the time"
            )
    units = rows if unit == "record" else training_clients
    if delta is not None and delta * units >= 1:
        found.append(
            f"privacy.delta: {delta:g} is one in as many {unit}s as train, or more, so that "
            f"somebody's data may be handed over whole; take one far below that, such as "
            f"{0.1 / units:.0e}"
        )
    epsilon = costs.get("epsilon_max", 0.0)
    if cost_level(epsilon, delta=delta or 0.0) == "nothing":
        words = f"an epsilon of {epsilon:.4g} for all rounds protects no one"
        found.append(f"privacy: {words}; take more noise, or a `target`")
    fairness = spec.fairness
    if fairness.sensitive and fairness.minimum_group_size > rows:
        found.append("fairness.minimum_group_size: more than all rows hides every group; lower it")
    if (fairness.intervals or Intervals()).samples != Intervals().samples:
        found.append(
            "fairness.intervals.samples: changes nothing, as `method` does; leave out both"
        )
    return found
