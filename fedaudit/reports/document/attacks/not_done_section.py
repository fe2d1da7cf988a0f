"""What a report says of an attack of any kind that could not be carried out."""

from fedaudit.reports.document.attacks.attack_section import AttackSection
from fedaudit.spec.attacks.attack_spec import AttackKind


class NotDoneSection(AttackSection):
    """An attack without figures."""

    kind: AttackKind
