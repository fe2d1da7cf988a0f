"""Canaries: known inputs that each take part by the fall of a coin, and are then looked for."""

from typing import Annotated, Literal, assert_never

from pydantic import Field

from fedaudit.spec.attacks.attack_part import AttackedSpec, AttackPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import QFfl

CanaryUnit = Literal["record", "client"]


class CanariesSpec(AttackPart):
    """Bounds the privacy loss of the run's mechanism from below."""

    question = "Canaries: is the noise as large as claimed?"
    needs_hypotheses = False
    tells_of_people = False  # what clients sent is taken off before anything is looked at
    kind: Literal["canaries"] = "canaries"
    unit: CanaryUnit
    """Whose presence the coins decide; it has to be the unit of the guarantee that is tested."""
    count: Annotated[int, Field(ge=2, le=100_000)]
    """How many canaries there are, of which about half take part."""
    significance: Annotated[float, Field(gt=0, le=0.05)] = 0.01
    """The chance of a bound above the truth, over all bounds of the attack together."""
    stop: Annotated[bool, Field(exclude_if=lambda stop: not stop)] = False
    """Whether the companion runs beside the run, and ends it in the round in which the evidence
    against its noise is sufficient."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        privacy, method = attacked.privacy, attacked.training.method
        if self.stop and not pointer.endswith("/0"):
            yield refuse_at(
                f"{pointer}/stop",
                "canaries that may end the run are weighed before all other attacks; put them "
                "first, or set it to false",
            )
        if self.stop and isinstance(privacy, LaplaceL2 | NoMechanism):
            yield refuse_at(
                f"{pointer}/stop",
                f"{privacy.mechanism} claims no epsilon that could be followed over rounds; set "
                "it to false",
            )
        if isinstance(method, QFfl) or not method.releases:
            yield refuse_at(
                "/training/method/kind",
                f"canaries take the place of updates, and clients of {method.kind} send none, or "
                "weighted ones; use `hypotheses`, `fine-tuning` or `ditto`",
            )
        match privacy:
            case RecordPersonalised():
                yield from self._check_unit("record", privacy.mechanism, pointer)
                if privacy.baseline is not None:
                    yield refuse_at(
                        "/privacy/baseline",
                        "canaries test the personalised noise that a record is promised; of a "
                        "baseline some is each client's own, or none; leave the baseline out",
                    )
            case GaussianCentral():
                yield from self._check_unit("client", privacy.mechanism, pointer)
                if privacy.adaptive_clip is not None:
                    yield refuse_at(
                        "/privacy/clip",
                        "canaries need a clip that is a number: one that moves follows a noised "
                        "count beside the updates, which they do not test",
                    )
            case LaplaceL2():
                yield from self._check_unit("client", privacy.mechanism, pointer)
                if privacy.per_layer:
                    yield refuse_at(
                        "/privacy/per_layer",
                        "canaries test the noise of whole updates; set it to false, or leave the "
                        "canaries out",
                    )
            case GaussianDistance():
                yield refuse_at(
                    f"{pointer}/kind",
                    f"the noise of {privacy.mechanism} follows from the updates, canaries among "
                    "them, and claims nothing to test; use the attack `client-inference`",
                )
            case GaussianLocal() | NoMechanism():
                yield from self._check_unit("client", privacy.mechanism, pointer)
            case _:
                assert_never(privacy)

    def _check_unit(self, unit: CanaryUnit, mechanism: str, pointer: str) -> Refusals:
        if self.unit != unit:
            yield refuse_at(
                f"{pointer}/unit",
                f"{mechanism} promises nothing to a {self.unit}, but to a {unit}; use "
                f"`unit: {unit}`",
            )
