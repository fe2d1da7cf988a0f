"""Calls on what experiments leave: reports, their readings and evidence."""

from collections.abc import AsyncGenerator, Sequence
from typing import IO, Any

from fedaudit_client.http.answers import Json, content, items, json_object, json_or_markdown, text
from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import Request, experiment_path
from fedaudit_client.result_types import ListedReport, SigningKey


class ReportCalls(Calls):
    """What can be had of experiments that have ended."""

    @call
    def report(self, experiment_id: str) -> Request[Json]:
        """The report document."""
        return Request("GET", f"{experiment_path(experiment_id)}/report.json", json_object)

    @call
    def report_page(self, experiment_id: str) -> Request[str]:
        """The report as one HTML page."""
        return Request("GET", f"{experiment_path(experiment_id)}/report.html", text)

    @call
    def reading(self, experiment_id: str, name: str) -> Request[Json | str]:
        """The report in the form that its reader has to fill: JSON, or Markdown for a card.

        `name`: `registry`, `nist-800-226`, `impact-ratio` or `model-card`.
        """
        path = f"{experiment_path(experiment_id)}/report"
        return Request("GET", path, json_or_markdown, params={"reading": name})

    @stream
    def reports(self, /, **filters: Any) -> AsyncGenerator[ListedReport, None]:
        """Every report that the filters let through, with its figures, newest first.

        The filters are the service's query parameters: `attribute="sex"`, `sort="-accuracy"`,
        bounds as `**{"equalized_odds_difference[lte]": 0.1}`.
        """
        return pages(self._wire, "reports", filters, ListedReport)

    @call
    def compare(
        self,
        experiment_ids: Sequence[str],
        *,
        fairness: str | None = None,
        utility: str | None = None,
    ) -> Request[Json]:
        """Two to fifty experiments side by side, with Pareto fronts over those two figures."""
        asked = {"experiment_id": list(experiment_ids), "fairness": fairness, "utility": utility}
        return Request("GET", "comparisons", json_object, params=asked)

    @call
    def verification(self, experiment_id: str) -> Request[Json]:
        """What the service found when it checked the report against the stored ledger."""
        path = f"{experiment_path(experiment_id)}/report/verification"
        return Request("GET", path, json_object)

    @steps
    async def download_bundle(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write everything that offline verification needs into a file, as a zip."""
        request = Request("GET", f"{experiment_path(experiment_id)}/bundle", content)
        await self._wire.download(request, file)

    @call
    def signing_keys(self) -> Request[Sequence[SigningKey]]:
        """The service's public keys, also the retired ones, as the service itself gives them."""
        return Request("GET", "signing-keys", items)
