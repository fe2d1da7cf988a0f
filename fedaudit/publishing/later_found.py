"""What attacks found after a report was signed, asked of the service that has the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaudit.reports.later import judged_later
from fedaudit_client.client import Client
from fedaudit_client.errors import NotFoundError


@dataclass(frozen=True)
class LaterFound:
    """Every request, and what all of them found."""

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
        """The report as it has to be judged beside them."""
        return judged_later(report, self.sections)


def later_found(client: Client, experiment_id: str) -> LaterFound:
    """What a service has of an experiment with a report. Raises ClientError."""
    try:
        return LaterFound(client.later_attacks(experiment_id)["items"])
    except NotFoundError:
        # A service of an earlier version: nobody can have asked it for attacks later.
        return LaterFound([])
