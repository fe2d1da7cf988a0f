"""What is published of one experiment, whichever tool it goes to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.publishing.later_found import LaterFound
from fedaudit.publishing.published_figures import PublishedFigures, report_figures
from fedaudit.publishing.report_facts import parsed_report, report_facts
from fedaudit.reports.document.document import Report
from fedaudit.reports.readings.reading_choice import READINGS, reading

MODEL_FILE = "model.safetensors"


@dataclass(kw_only=True)
class Publication:
    """One experiment's report, and what is published beside it."""

    document: Mapping[str, Any]
    """The report as it has to be judged: the stored one, beside what attacks found later."""
    report: Report
    """The same, parsed."""
    figures: PublishedFigures
    files: list[Path]
    """Whole files, in the order in which they are published."""
    model: Path | None = None
    """The trained hypotheses, where they may leave."""
    model_reason: str | None = None
    """Why there is no model."""
    origin: str
    """Where the report was had from: the service's address, or `file`."""
    url: str | None = None
    """The report's page, where a service has it."""
    gates: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """The report's gates, as evaluated for it."""

    @property
    def experiment_id(self) -> str:
        """Of the experiment."""
        return self.report.experiment.id

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.report.experiment.name

    def facts(self) -> dict[str, str]:
        """What whoever looks at the figures has to know beside them, by name."""
        stated = report_facts(self.document, self.report, origin=self.origin, url=self.url)
        return {**stated, "model": self.model_reason or MODEL_FILE}


def publication(
    document: Mapping[str, Any],
    *,
    page: str,
    folder: Path,
    origin: str,
    url: str | None = None,
    later: LaterFound | None = None,
) -> Publication:
    """The publication of a report, its page and its readings, written below `folder`.

    `later`: what attacks found after it was signed, which counts as if it stood in it.
    Raises PublishingError where the document is no report.
    """
    contents: dict[str, str] = {
        "report.json": _json(document),
        "report.html": page,
    }
    if later is not None and later.requests:
        contents["later-attacks.json"] = _json(later.requests)
        document = later.judge(document)
    report = parsed_report(document)
    for name in READINGS:
        made = reading(document, name)
        markdown = isinstance(made, str)
        contents[f"readings/{name}.{'md' if markdown else 'json'}"] = (
            made if isinstance(made, str) else _json(made)
        )
    files = []
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        files.append(path)
    return Publication(
        document=document,
        report=report,
        figures=report_figures(document, report),
        files=files,
        origin=origin,
        url=url,
        gates=[gate.model_dump(mode="json") for gate in report.gates],
    )


def _json(value: Any) -> str:
    return f"{json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)}\n"
