"""What attacks found after a report was signed, as a service lists it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaudit_client.client import Client


@dataclass(frozen=True)
class LaterFound:
    """Requests for attacks after a report was signed, with their findings."""

    requests: list[Mapping[str, Any]]

    @property
    def sections(self) -> list[Mapping[str, Any]]:
        """The sections of all attacks, in their order."""
        return [attack["section"] for one in self.requests for attack in one["items"]]

    @property
    def alarms(self) -> int:
        """How many of them raised an alarm."""
        return sum(section.get("alarm") is not None for section in self.sections)

    def judge(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        """The report with the outcomes that follow from them."""
        # Later: to count alarms takes no library of the service.
        from fedaudit.reports.later import judged_later

        return judged_later(report, self.sections)


def later_found(client: Client, experiment_id: str) -> LaterFound:
    """The later attacks on an experiment of a service. Raises ClientError."""
    return LaterFound(client.later_attacks(experiment_id)["items"])
