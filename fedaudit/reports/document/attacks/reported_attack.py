"""An attack as any report has it, whatever its kind."""

from pydantic import ConfigDict

from fedaudit.reports.document.attacks.attack_section import AttackSection


class ReportedAttack(AttackSection):
    """What all kinds have in common; the figures of its kind stand beside it.

    Those are checked by the class of the kind when the section is made. A report that is read may
    be of another version, with other figures or another kind.
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    kind: str
