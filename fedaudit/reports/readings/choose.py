"""Which readings there are, and the one that is asked for."""

from collections.abc import Mapping
from typing import Any, Literal

from fedaudit.reports.readings.impact_ratio import impact_ratio
from fedaudit.reports.readings.model_card import model_card
from fedaudit.reports.readings.nist_800_226 import nist_800_226
from fedaudit.reports.readings.registry import registry

ReadingName = Literal["registry", "nist-800-226", "impact-ratio", "model-card"]


def reading(document: Mapping[str, Any], name: ReadingName) -> dict[str, Any] | str:
    """A reading of a stored report: JSON-able values, and Markdown for `model-card`.

    What an older report lacks is told as not stated; no document is refused for it.
    """
    match name:
        case "registry":
            return registry(document)
        case "nist-800-226":
            return nist_800_226(document).model_dump(mode="json")
        case "impact-ratio":
            return impact_ratio(document).model_dump(mode="json")
        case "model-card":
            return model_card(document)
