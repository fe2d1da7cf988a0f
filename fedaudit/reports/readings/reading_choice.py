"""The registered report formats, and look-up by name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from fedaudit.reports.readings.impact_ratio import IMPACT_RATIO
from fedaudit.reports.readings.model_card import MODEL_CARD
from fedaudit.reports.readings.nist_800_226 import NIST_800_226
from fedaudit.reports.readings.reading import ReportReading
from fedaudit.reports.readings.registry import REGISTRY

READINGS: dict[str, ReportReading] = {
    one.name: one for one in (REGISTRY, NIST_800_226, IMPACT_RATIO, MODEL_CARD)
}
"""By name. The command line, the HTTP interface and the pages offer the formats registered here."""

if TYPE_CHECKING:
    ReadingName = str
else:
    # The names themselves, for code that validates a name or publishes a schema of it.
    ReadingName = Literal[tuple(READINGS)]


def reading(document: Mapping[str, Any], name: ReadingName) -> dict[str, Any] | str:
    """A stored report in the named format: JSON-able values, and Markdown for `model-card`.

    Anything that an older report lacks is reported as not stated; no document is refused for it.
    Raises KeyError for a name that is not registered.
    """
    return READINGS[name].make(document)
