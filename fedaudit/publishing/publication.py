"""What is published of one experiment: its files, and its figures under their published names.

Users of another tool see a figure's name and its value, without guarantee and verdict. So a figure
that a gate would not count without an exception has another name.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple, assert_never

from fedaudit.privacy.accounting.privacy_events import GuaranteeKind
from fedaudit.publishing.later_found import LaterFound, later_found
from fedaudit.reports.charts.line_chart import FIGURES as BY_ROUND
from fedaudit.reports.figures import COUNTED, PRIVACY, figures_of, parsed
from fedaudit.reports.page.html import render
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.readings import READINGS, reading
from fedaudit.reports.report import Report, report_hash
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import condition_of, guarantee_words, is_in_force
from fedaudit.reports.sections.utility import why_not_useful
from fedaudit.reports.verdict.release import answer_of
from fedaudit_client.client import Client, report_page
from fedaudit_client.errors import ConflictError

NOT_FINITE = "the value is not finite"
NOT_IN_FILE = "a report file has no figures by round; publish by the experiment's id for them"
_NO_REASON = "the report gives no reason"

_Key = tuple[str | None, str]
"""An attribute, for gaps, and a figure."""


@dataclass(frozen=True)
class PublishedFigure:
    """A finite figure at the end of a round."""

    name: str
    """Parts with slashes between, as `fairness/sex/equalized_odds_difference`. No name is another
    one's folder: some stores keep a file for each."""
    value: float
    round: int


@dataclass
class PublishedFigures:
    """What is published, and why the rest is not."""

    final: list[PublishedFigure] = field(default_factory=list)
    """The report's own figures, at the last round."""
    by_round: list[PublishedFigure] = field(default_factory=list)
    """In the order of rounds; names begin with `rounds/`."""
    missing: dict[str, str] = field(default_factory=dict)
    """Name -> reason."""


def report_figures(document: Mapping[str, Any], report: Report) -> PublishedFigures:
    """The figures of a report, with the ends of their intervals. `report` is the document parsed. A
    figure that is null or not finite is missing."""
    found = PublishedFigures()

    def add(name: str, value: float | None, reason: str | None) -> None:
        if value is None:
            found.missing[name] = reason or _NO_REASON
        else:
            found.final.append(PublishedFigure(name, float(value), report.utility.rounds))

    for figure in figures_of(report):
        name = f"{_section(document, figure.figure)}/{figure.figure}"
        if figure.attribute is not None:
            name = f"{fairness_section(document)}/{figure.attribute}/{figure.figure}"
        elif figure.observer is not None:
            name = f"{name}_{figure.observer}"
        add(name, figure.value, figure.reason)
        if figure.interval is not None and name not in found.missing:
            add(f"{name}_low", figure.interval.low, None)
            add(f"{name}_high", figure.interval.high, None)
    return found


def add_rounds(
    found: PublishedFigures,
    document: Mapping[str, Any],
    report: Report,
    *,
    rounds: Iterable[Mapping[str, Any]],
    gaps: Iterable[Mapping[str, Any]],
) -> None:
    """Add the figures of rounds, and their gaps, to those of the report. A figure that the report
    withholds or suppresses is not published round by round either. `rounds` and `gaps` are the
    service's lines."""
    withheld = {
        (figure.attribute, figure.figure): figure.reason or _NO_REASON
        for figure in figures_of(report)
        if figure.value is None
    }
    absent: dict[str, Counter[str]] = {}
    counted: Counter[str] = Counter()
    for one in chain(_of_rounds(document, rounds), _of_gaps(document, gaps)):
        counted[one.name] += 1
        why = withheld.get(one.key)
        if why is None and one.value is None:
            why = one.reason or _NO_REASON
        elif why is None and not math.isfinite(one.value):
            why = NOT_FINITE
        if why is None:
            found.by_round.append(PublishedFigure(one.name, float(one.value), one.round))
        else:
            absent.setdefault(one.name, Counter())[why] += 1
    for name, reasons in absent.items():
        missing, rounds_ = reasons.total(), counted[name]
        where = "in every round" if missing == rounds_ else f"in {missing} of {rounds_} rounds"
        found.missing[name] = f"{where}: {'; '.join(reasons)}"


class _Line(NamedTuple):
    name: str
    key: _Key
    round: int
    value: Any
    reason: str | None


def _of_rounds(document: Mapping[str, Any], rounds: Iterable[Mapping[str, Any]]) -> Iterator[_Line]:
    names = {figure: f"rounds/{_section(document, figure)}/{figure}" for figure in BY_ROUND}
    for line in rounds:
        for figure, name in names.items():
            reason = (line.get("reasons") or {}).get(figure)
            yield _Line(name, (None, figure), line["round"], line.get(figure), reason)


def _of_gaps(document: Mapping[str, Any], gaps: Iterable[Mapping[str, Any]]) -> Iterator[_Line]:
    section = fairness_section(document)
    for line in gaps:
        key = (line["attribute"], line["metric"])
        name = f"rounds/{section}/{line['attribute']}/{line['metric']}"
        yield _Line(name, key, line["round"], line["value"], line["reason"])


def _section(document: Mapping[str, Any], figure: str) -> str:
    return privacy_section(document, figure) if figure in PRIVACY else "utility"


def privacy_section(report: Mapping[str, Any], figure: str) -> str:
    """The heading of a privacy figure; `report` is a stored report. It is `privacy` only if the
    figure is proven for all datasets, the noise was secret, and no attack found evidence against
    it."""
    if figure in COUNTED or raised_alarms(report):
        return "participation" if figure in COUNTED else "privacy_contradicted"
    kind: GuaranteeKind = report["guarantee"]["kind"]
    match kind:
        case "none":
            return "privacy_none"
        case "declared":
            return "privacy_declared"
        case "heuristic":
            return "privacy_heuristic" if is_in_force(report) else "privacy_not_in_force"
        case "formal":
            if not is_in_force(report):
                return "privacy_not_in_force"
            conditional = condition_of(report, figure) is not None
            return "privacy_conditional" if conditional else "privacy"
        case _:
            assert_never(kind)


def fairness_section(report: Mapping[str, Any]) -> str:
    """The heading of gaps: the smallest gaps are those of a model that decides nothing, or is not
    shown to decide anything. Declared gaps are `fairness_declared`."""
    if report["guarantee"]["kind"] == "declared":
        return "fairness_declared"
    return "fairness" if why_not_useful(report) is None else "fairness_no_evidence"


class PublishingError(Exception):
    """A report cannot be published; the message says why and what to change."""


class MissingExtraError(PublishingError):
    """MLflow's client library is not installed; the message names the extra."""


def import_mlflow() -> ModuleType:
    """MLflow's client library. Raises MissingExtraError."""
    try:
        return import_module("mlflow")
    except ImportError as error:
        raise MissingExtraError(
            f"this needs the library mlflow, which cannot be imported ({error}): install the "
            "extra `mlflow`, as in pip install 'fedaudit[mlflow]'"
        ) from error


MODEL_FILE = "model.safetensors"


@dataclass(kw_only=True)
class Publication:
    """One experiment's report, and what is published beside it."""

    document: Mapping[str, Any]
    """The stored report, with the outcomes that follow from later attacks."""
    report: Report
    figures: PublishedFigures
    files: list[Path]
    """Whole files, in the order in which they are published."""
    model: Path | None = None
    """The trained hypotheses, if they may leave."""
    model_reason: str | None = None
    origin: str
    """The service's address, or `file`."""
    url: str | None = None

    @property
    def gates(self) -> Sequence[Mapping[str, Any]]:
        """The report's gates, as evaluated for it."""
        return [gate.model_dump(mode="json") for gate in self.report.gates]

    @property
    def passed(self) -> bool:
        """Whether there are gates, and all of them passed, after later attacks too."""
        return self.report.gate_outcome == "pass"

    @property
    def experiment_id(self) -> str:
        """Of the experiment."""
        return self.report.experiment.id

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.report.experiment.name

    def facts(self) -> dict[str, str]:
        """The context of the figures, by name."""
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
    """The publication of a report, its page and its readings, written below `folder`. `later`:
    attacks after it was signed; their findings count. Raises PublishingError if the document is not
    a report."""
    contents = {"report.json": _json(document), "report.html": page}
    if later is not None and later.requests:
        contents["later-attacks.json"] = _json(later.requests)
        document = later.judge(document)
    report = parsed_report(document)
    for name in READINGS:
        made = reading(document, name)
        if isinstance(made, str):
            contents[f"readings/{name}.md"] = made
        else:
            contents[f"readings/{name}.json"] = _json(made)
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
    )


def _json(value: Any) -> str:
    return f"{json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)}\n"


LEDGER_FILE = "ledger.ndjson"
_NO_MODEL_IN_FILE = "a report file has no model; publish by the experiment's id for it"


@contextmanager
def from_service(
    client: Client, experiment_id: str, *, with_ledger: bool = False
) -> Iterator[Publication]:
    """The publication of a service's experiment that has ended; its files exist within the block.
    `with_ledger` adds the ledger, which is confidential: the key needs the scope `ledger:read`.
    Raises ClientError, and PublishingError if the report cannot be read."""
    document = client.report(experiment_id)
    with TemporaryDirectory(prefix="fedaudit-") as name:
        folder = Path(name)
        found = publication(
            document,
            page=client.report_page(experiment_id),
            folder=folder,
            origin=client.url,
            url=report_page(client.url, experiment_id),
            later=later_found(client, experiment_id),
        )
        add_rounds(
            found.figures,
            found.document,
            found.report,
            rounds=client.rows(experiment_id, "rounds"),
            gaps=client.rows(experiment_id, "fairness"),
        )
        if with_ledger:
            ledger = folder / LEDGER_FILE
            with ledger.open("wb") as file:
                file.writelines(client.export(experiment_id, "ledger"))
            found.files.append(ledger)
        path = folder / MODEL_FILE
        try:
            with path.open("wb") as file:
                client.download_model(experiment_id, file)
        except ConflictError as error:
            path.unlink()
            found.model_reason = error.detail
        else:
            found.model = path
        yield found


@contextmanager
def from_file(path: Path) -> Iterator[Publication]:
    """The publication of a report file of `fedaudit run --out` or `fedaudit report --out`. Raises
    PublishingError if it is not one. The signature is not checked: `fedaudit verify` does that,
    with a bundle."""
    document = read_document(path)
    # Before its page is rendered, which would fail with a less helpful message.
    refuse_declared(document)
    with TemporaryDirectory(prefix="fedaudit-") as name:
        try:
            page = render(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PublishingError(f"{path} is not an audit report") from None
        found = publication(document, page=page, folder=Path(name), origin="file")
        found.figures.missing["rounds"] = NOT_IN_FILE
        found.model_reason = found.report.model_reason or _NO_MODEL_IN_FILE
        yield found


def read_document(path: Path) -> Mapping[str, Any]:
    """The JSON of a report file. Raises PublishingError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PublishingError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise PublishingError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, Mapping) or "report_version" not in document:
        raise PublishingError(
            f"{path} is not an audit report; `fedaudit report ID --out` writes one"
        )
    return document


def parsed_report(document: Mapping[str, Any]) -> Report:
    """The report, with the guarantee's fields that its version lacks. Raises PublishingError if it
    is none, or that of a declared ledger."""
    refuse_declared(document)
    try:
        return parsed(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PublishingError(f"this is not an audit report that can be read: {error}") from None


def refuse_declared(document: Mapping[str, Any]) -> None:
    """Raises PublishingError for the report of a declared ledger: it has no spec and no rounds, and
    its figures must not be sorted with those of runs."""
    if document.get("declared"):
        raise PublishingError(
            "this is the report of a declared ledger, which is not published to other tools: its "
            "figures are the trainer's claims; log them from the training itself, under names that "
            "say so"
        )


def report_facts(
    document: Mapping[str, Any], report: Report, *, origin: str, url: str | None
) -> dict[str, str]:
    """The context of a report's figures, by name. `report` is the document parsed, `origin` its
    source, `url` its page."""
    useless = why_not_useful(document)
    guarantee = guarantee_words(report.guarantee.model_dump())
    cost = f"{guarantee}: {' '.join(facts.spent(document)) or 'no figure'}"
    if report.guarantee.kind == "none":
        cost = "unbounded: nothing protects the clients"
    answer = answer_of(document)
    stated = {
        # What has to be known first stands first among names in their order.
        "answer": f"{answer.outcome}: {'; '.join(one.text for one in answer.reasons)}",
        "experiment_id": report.experiment.id,
        "status": report.experiment.status,
        "origin": origin,
        "report_url": url,
        "report_hash": report_hash(document),
        "spec_hash": report.experiment.spec_hash,
        "signing_key": report.integrity.key_id or "not signed",
        "guarantee": guarantee,
        "guarantee_in_force": "true" if report.guarantee.in_force else "false",
        "mechanism": report.guarantee.mechanism,
        "privacy_cost": cost,
        "model_decides": "true" if useless is None else f"not shown: {useless}",
        "gate_outcome": report.gate_outcome or "no gate was given",
        "verdict": report.verdict,
    }
    return {name: value for name, value in stated.items() if value is not None}
