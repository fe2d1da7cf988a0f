"""Membership: who was in the training data, told from the trained hypotheses."""

from typing import Annotated, Literal, assert_never

from pydantic import Field

from fedaudit.spec.attacks.attack_part import AttackedSpec, AttackPart
from fedaudit.spec.errors import Refusals, refuse_at

MembershipMethod = Literal["threshold", "likelihood-ratio", "relative"]
ShadowVariant = Literal["online", "offline"]
ScoreVariance = Literal["per-record", "global"]

MIN_SHADOWS_EACH = 16
"""Shadow runs with a record and without it, at least, for a likelihood ratio: a variance of fewer
says little."""
_LEAST_SHADOWS: dict[MembershipMethod, int] = {
    "threshold": 0,
    "likelihood-ratio": 64,
    "relative": 16,
}
"""Every record is in a random half of them, so it takes more than twice as many for each record to
be in `MIN_SHADOWS_EACH`, and outside of as many."""


class MembershipSpec(AttackPart):
    """Guesses from the trained hypotheses which records were trained on."""

    question = "Membership: can a record be recognised as one of training?"
    kind: Literal["membership"] = "membership"
    method: MembershipMethod = "threshold"
    """`threshold`: by the loss alone; `likelihood-ratio`: LiRA (Carlini et al. 2022); `relative`:
    RMIA (Zarifzadeh et al. 2024)."""
    shadows: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Models trained alike on random halves of all clients, that tell what a loss means; none for
    `threshold`. Each costs about what the run costs."""
    variant: ShadowVariant = "online"
    """Of `likelihood-ratio`. `online` compares shadow runs with and without the record; `offline`
    looks only at those without it."""
    variance: ScoreVariance = "per-record"
    """Of `likelihood-ratio`: whether each record's scores have a variance of their own, or all one
    together, which is steadier with fewer than 64 shadow runs on either side."""

    @property
    def needs_hypotheses(self) -> bool:
        return True

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        if not attacked.training.method.releases:
            yield refuse_at(
                f"{pointer}/kind",
                "clients send nothing under this `training.method`, so there is no common model to "
                "attack; choose another method, or leave this attack out",
            )
        yield from self._shadow_faults(pointer)
        if self.method != "likelihood-ratio":
            for name, value, default in (
                ("variant", self.variant, "online"),
                ("variance", self.variance, "per-record"),
            ):
                if value != default:
                    yield refuse_at(
                        f"{pointer}/{name}",
                        f"only `likelihood-ratio` has a {name}; leave it out, or take that method",
                    )

    def _shadow_faults(self, pointer: str) -> Refusals:
        at = f"{pointer}/shadows"
        match self.method:
            case "threshold":
                if self.shadows is not None:
                    yield refuse_at(
                        at,
                        "a threshold on the loss needs no shadow runs; leave `shadows` out, or "
                        "choose the method `likelihood-ratio` or `relative`",
                    )
            case "likelihood-ratio" | "relative":
                least = _LEAST_SHADOWS[self.method]
                if self.shadows is None:
                    yield refuse_at(
                        at,
                        f"`{self.method}` compares the run with shadow runs; give their number, at "
                        f"least {least} (256 is usual), or choose the method `threshold`",
                    )
                elif self.shadows < least:
                    yield refuse_at(
                        at,
                        f"{self.shadows} shadow runs are too few for `{self.method}`, as each "
                        f"record is in about half of them; ask for at least {least}, or choose "
                        "the method `threshold`, which needs none",
                    )
            case _:
                assert_never(self.method)
