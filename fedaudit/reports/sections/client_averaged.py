"""The rates of groups averaged over clients, beside those pooled over records."""

from fedaudit.fairness.disclosure import MIN_CLIENTS, Disclosure
from fedaudit.fairness.gaps import NO_OUTCOME, ClientAverages, client_averages
from fedaudit.reports.document.document import (
    ClientAveragedGroup,
    ClientAveragedSection,
    FigureSection,
)
from fedaudit.reports.document.material import ScoredMaterial
from fedaudit.spec.metrics import RATES

_COMBINED = (
    "a combination is suppressed, and the numbers of the single attributes, less those of the "
    "other combinations, would give it away"
)


def client_averaged(
    material: ScoredMaterial, attribute: str, disclosure: Disclosure
) -> tuple[ClientAveragedSection | None, str | None]:
    """The section of one attribute, or None and the reason why there is none.

    `disclosure`: which of the rates pooled over records are disclosed.
    """
    if not disclosure.rule.has_favourable_outcome:
        return None, NO_OUTCOME
    groups = material.federation.attributes[attribute]
    found = client_averages(material.result.fairness[attribute], disclosure)
    uncounted = found.disclosure.suppresses and disclosure.rule.combination is not None
    section = ClientAveragedSection(
        groups=[
            _group(found, place, value, uncounted=uncounted) for place, value in enumerate(groups)
        ],
        metrics={
            figure.metric: FigureSection(value=figure.value, reason=figure.reason)
            for figure in found.figures
        },
    )
    return section, None


def _group(
    found: ClientAverages, place: int, value: str, *, uncounted: bool
) -> ClientAveragedGroup:
    if not found.disclosure.shown[place]:
        missing = dict.fromkeys(RATES)
        reasons = dict.fromkeys(("clients", *RATES), found.disclosure.reason)
        return ClientAveragedGroup(
            value=value, suppressed=True, clients=None, reasons=reasons, **missing
        )
    rates: dict[str, float | None] = dict(zip(RATES, found.rates[:, place].tolist(), strict=True))
    reasons = {"clients": _COMBINED} if uncounted else {}
    for rate, contributing in zip(RATES, found.contributing[:, place].tolist(), strict=True):
        if contributing < MIN_CLIENTS:
            rates[rate] = None
            reasons[rate] = f"fewer than {MIN_CLIENTS} clients have {RATES[rate].rows}"
    return ClientAveragedGroup(
        value=value,
        suppressed=False,
        clients=None if uncounted else int(found.clients[place]),
        reasons=reasons,
        **rates,
    )
