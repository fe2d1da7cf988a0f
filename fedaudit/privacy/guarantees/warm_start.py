"""What a guarantee says where training did not start from nothing."""

from dataclasses import replace

from fedaudit.privacy.guarantees.guarantee import Guarantee
from fedaudit.spec.model.starts import ArtifactStart, Start

_FIGURES = ("epsilon_max", "leakage_max", "leakage_median", "log_ratio_max")
_ADDED_ONLY = (
    "it counts what this run adds to the artifact that it started from, whose own cost is not known"
)


def start_limit(start: Start) -> str | None:
    """What nobody has counted of the parameters that training started from; None where they were
    drawn."""
    if not isinstance(start, ArtifactStart):
        return None
    return (
        f"Training started from the artifact {start.artifact}. What that discloses is not counted: "
        "if it was trained on these people without protection, so is the model of this run, "
        "whatever this run adds. Figures on the held-out people are too good where it was "
        "trained on them."
    )


def of_this_run_only(guarantee: Guarantee, start: Start) -> Guarantee:
    """The guarantee, said of what the run adds, where it started from an artifact.

    Its figures then bound nothing of the model as a whole, so that each gets a condition, which a
    gate has to allow.
    """
    if not isinstance(start, ArtifactStart):
        return guarantee
    conditions = {
        name: "; ".join(filter(None, (guarantee.conditions.get(name), _ADDED_ONLY)))
        for name in _FIGURES
    }
    statement = (
        f"{guarantee.statement} All of this covers what this run adds to the artifact "
        f"{start.artifact} that it started from, and takes that as given: nothing is said of whom "
        "it was trained on, nor with what protection."
    )
    return replace(guarantee, conditions=conditions, statement=statement)
