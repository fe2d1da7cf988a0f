"""Membership: who was in the training data, inferred from the trained hypotheses."""

from typing import Annotated, Literal, assert_never

from pydantic import Field

from fedaudit.spec.attacks.attack_part import AttackedSpec, AttackPart, check_common_model
from fedaudit.spec.errors import Refusals, refuse_at

MembershipMethod = Literal["threshold", "likelihood-ratio", "relative"]
ShadowVariant = Literal["online", "offline"]
ScoreVariance = Literal["per-record", "global"]

MIN_SHADOWS_EACH = 16
"""Least number of shadow runs with a record, and without it, for a likelihood ratio: the variance
of fewer is too uncertain."""
LEAST_SHADOWS = 64
"""Least number of shadow runs: each record is in a random half of them, so more than twice
`MIN_SHADOWS_EACH` are needed for every record to be in that many, and outside as many."""


class MembershipSpec(AttackPart):
    """Guesses from the trained hypotheses which records were trained on."""

    question = "Membership: can a record be recognised as one of training?"
    needs_hypotheses = True
    usual = {
        "method": ("threshold", "likelihood-ratio"),
        "variant": ("online",),
        "variance": ("per-record",),
    }
    kind: Literal["membership"] = "membership"
    method: MembershipMethod = "threshold"
    """`threshold`: by the loss alone; `likelihood-ratio`: LiRA (Carlini et al. 2022); `relative` is
    retired."""
    shadows: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Models trained alike on random halves of all clients, that show what a loss means; none for
    `threshold`. Each costs about what the run costs."""
    variant: ShadowVariant = "online"
    """`online` compares shadow runs with and without the record; `offline` is retired."""
    variance: ScoreVariance = "per-record"
    """Each record's scores have a separate variance; `global` is retired."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        yield from check_common_model(attacked, pointer=pointer)
        at = f"{pointer}/shadows"
        match self.method:
            case "threshold":
                if self.shadows is not None:
                    yield refuse_at(
                        at,
                        "a threshold on the loss needs no shadow runs; leave `shadows` out, or "
                        "choose the method `likelihood-ratio`",
                    )
            case "likelihood-ratio":
                if self.shadows is None or self.shadows < LEAST_SHADOWS:
                    yield refuse_at(
                        at,
                        f"a likelihood ratio needs shadow runs: ask for at least {LEAST_SHADOWS} "
                        "(256 is usual), or choose the method `threshold`, which needs none",
                    )
            case "relative":
                pass  # retired
            case _:
                assert_never(self.method)
