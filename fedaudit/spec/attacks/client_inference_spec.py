"""Client inference: whether a client took part, from the model and some of its rows."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.attacks.attack_part import AttackedSpec, AttackPart, check_common_model
from fedaudit.spec.attacks.membership_spec import LEAST_SHADOWS
from fedaudit.spec.errors import Refusals, refuse_at


class ClientInferenceSpec(AttackPart):
    """Guesses by a client which others took part (Sainz-Pardo Diaz et al. 2026, section 5)."""

    question = "Client inference: can a client infer that another one took part?"
    needs_hypotheses = True
    kind: Literal["client-inference"] = "client-inference"
    shadow_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """The share of each client's rows that the attacker has, at least one: a tenth in section
    7.4."""
    shadows: Annotated[int, Field(ge=LEAST_SHADOWS, le=4096)] | None = None
    """Models trained alike on random halves of all clients, that show what a loss means; without
    any the attacker has the loss of all clients that the server announces, as in the paper."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        yield from check_common_model(attacked, pointer=pointer)
        if attacked.federation.holds_out_rows:
            yield refuse_at(
                f"{pointer}/kind",
                "every client trains, so none is outside to compare with; use "
                "`federation.validation_unit: client`, or leave this attack out",
            )
