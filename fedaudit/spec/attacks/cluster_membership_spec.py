"""Hypothesis membership: which hypothesis a client chose, inferred from its noised upload."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.attacks.attack_part import AttackedSpec, AttackPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.privacy import LaplaceL2

TriedMultiplier = Annotated[float, Field(gt=0, le=1e6)]

_AROUND = (0.1, 1 / 3, 1.0, 3.0, 10.0)


class ClusterMembershipSpec(AttackPart):
    """Counts how often the server names the hypothesis that a client started from."""

    question = "Hypothesis membership: does an upload show its client's choice?"
    needs_hypotheses = True
    kind: Literal["cluster-membership"] = "cluster-membership"
    noise_multipliers: (
        Annotated[list[TriedMultiplier], Field(min_length=1, max_length=32)] | None
    ) = None
    """The values of nu to try; null tries the run's own, and a tenth, a third, three and ten times
    that."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        mechanism = attacked.privacy.mechanism
        if attacked.training.hypotheses == 1:
            yield refuse_at(
                f"{pointer}/kind",
                "with one hypothesis no client chooses; ask for more `training.hypotheses`, or "
                "leave this attack out",
            )
        if attacked.training.reports_choices:
            yield refuse_at(
                f"{pointer}/kind",
                "with `method: reported` clients say which hypothesis they chose; use the "
                "clustering `k-means`, or leave this attack out",
            )
        if not isinstance(attacked.privacy, LaplaceL2):
            yield refuse_at(
                f"{pointer}/kind",
                f"the server of {mechanism} does not receive uploads with noise; this attack is "
                "for `laplace-l2`",
            )

    def tried(self, own: float) -> list[float]:
        """The noise multipliers, ascending and each once; `own`: that of the run."""
        around = [own * factor for factor in _AROUND]
        return sorted(set(around if self.noise_multipliers is None else self.noise_multipliers))
