"""The rates of groups averaged over clients, beside those pooled over records."""

from fedaudit.fairness.client_averages import FEWEST_CLIENTS, ClientAverages, client_averages
from fedaudit.fairness.counts import RATES
from fedaudit.fairness.gaps import NO_OUTCOME
from fedaudit.reports.document import ClientAveragedGroup, ClientAveragedSection, FigureSection
from fedaudit.reports.fairness_groups import hidden_reason
from fedaudit.reports.material import ReportMaterial

_WITH_DENOMINATOR = {
    "selection_rate": "scored rows",
    "true_positive_rate": "rows with the favourable outcome",
    "false_positive_rate": "rows without the favourable outcome",
}
_COMBINED = (
    "a combination is suppressed, and the numbers of the single attributes, less those of the "
    "other combinations, would give it away"
)


def client_averaged(
    material: ReportMaterial, attribute: str, *, reference_group: str | None
) -> tuple[ClientAveragedSection | None, str | None]:
    """The section of one attribute, or None and the reason why there is none."""
    if not material.spec.declares_outcome:
        return None, NO_OUTCOME
    fairness, groups = material.spec.fairness, material.federation.attributes[attribute]
    found = client_averages(
        material.result.fairness[attribute],
        groups,
        minimum_group_size=fairness.minimum_group_size,
        reference_group=reference_group,
        combination=material.combination(attribute),
    )
    hidden = hidden_reason(
        f"fewer than {fairness.minimum_group_size} scored rows or {FEWEST_CLIENTS} clients"
    )
    some_hidden = bool((~found.shown & (found.clients > 0)).any())
    uncounted = some_hidden and attribute in fairness.combinations
    section = ClientAveragedSection(
        groups=[
            _group(found, place, value, hidden=hidden, uncounted=uncounted)
            for place, value in enumerate(groups)
        ],
        metrics={
            figure.metric: FigureSection(value=figure.value, reason=figure.reason)
            for figure in found.figures
        },
    )
    return section, None


def _group(
    found: ClientAverages, place: int, value: str, *, hidden: str, uncounted: bool
) -> ClientAveragedGroup:
    if not found.shown[place]:
        missing = dict.fromkeys(RATES)
        reasons = dict.fromkeys(("clients", *RATES), hidden)
        return ClientAveragedGroup(
            value=value, suppressed=True, clients=None, reasons=reasons, **missing
        )
    rates: dict[str, float | None] = dict(zip(RATES, found.rates[:, place].tolist(), strict=True))
    reasons = {"clients": _COMBINED} if uncounted else {}
    for rate, contributing in zip(RATES, found.contributing[:, place].tolist(), strict=True):
        if contributing < FEWEST_CLIENTS:
            rates[rate] = None
            reasons[rate] = f"fewer than {FEWEST_CLIENTS} clients have {_WITH_DENOMINATOR[rate]}"
    return ClientAveragedGroup(
        value=value,
        suppressed=False,
        clients=None if uncounted else int(found.clients[place]),
        reasons=reasons,
        **rates,
    )
