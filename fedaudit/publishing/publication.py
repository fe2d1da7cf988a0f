"""What is published of an experiment or a declared ledger: its files, and its figures under their
published names.

Users of another tool see a figure's name and its value, without guarantee and verdict. So a figure
that a gate would not count without an exception has another name.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, assert_never

from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import GuaranteeKind
from fedaudit.reports.charts.report_charts import FIGURES as BY_ROUND
from fedaudit.reports.declared.tested_noise import status_of
from fedaudit.reports.figures import COUNTED, PRIVACY, figures_of, parsed
from fedaudit.reports.page.html import render
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.readings import READINGS, reading
from fedaudit.reports.report import Report, judged_later, report_hash
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import (
    condition_of,
    delta_gives_data_away,
    guarantee_words,
    is_in_force,
)
from fedaudit.reports.sections.utility import personal_method, why_not_useful
from fedaudit.reports.verdict.cost import cost_part, epsilon_words
from fedaudit.reports.verdict.release import answer_of
from fedaudit_client.client import Client
from fedaudit_client.errors import ConflictError, NotFoundError

Figures = dict[str, float]
"""Keyed by name, with slashes between parts: `fairness/sex/equalized_odds_difference`. No name is
another one's folder: some stores keep a file for each."""


def report_figures(document: Mapping[str, Any], report: Report) -> Figures:
    """The figures of a report that exist, with the ends of their intervals. `report` is the
    document parsed."""
    found: Figures = {}
    for figure in figures_of(report):
        if figure.value is None:
            continue
        section = privacy_section(document, figure.figure)
        if figure.attribute:
            section = f"{fairness_section(document)}/{figure.attribute}"
        elif figure.section == "utility":
            section = _utility_section(document)
        against = f"_{figure.observer}" if figure.observer else ""
        name = f"{section}/{figure.figure}{against}"
        found[name] = figure.value
        if figure.interval is not None:
            found |= {f"{name}_low": figure.interval.low, f"{name}_high": figure.interval.high}
    return found


RoundFigure = tuple[str, float, int]
"""A name as of Figures, but that it begins with `rounds/`; a finite value; the round that ended."""


def round_figures(
    document: Mapping[str, Any],
    report: Report,
    *,
    rounds: Iterable[Mapping[str, Any]],
    gaps: Iterable[Mapping[str, Any]],
) -> Iterator[RoundFigure]:
    """The figures of each round, but for those that the report withholds or suppresses. `rounds`
    and `gaps` are the service's lines."""
    withheld = {(one.attribute, one.figure) for one in figures_of(report) if one.value is None}
    sections = {
        name: privacy_section(document, name) if name in PRIVACY else _utility_section(document)
        for name in BY_ROUND
        if ("", name) not in withheld
    }
    for line in rounds:
        for name, section in sections.items():
            if (value := line.get(name)) is not None and isfinite(value):
                yield f"rounds/{section}/{name}", float(value), line["round"]
    heading = f"rounds/{fairness_section(document)}"
    for line in gaps:
        attribute, name, value = line["attribute"], line["metric"], line["value"]
        if value is not None and (attribute, name) not in withheld:
            yield f"{heading}/{attribute}/{name}", float(value), line["round"]


def privacy_section(report: Mapping[str, Any], figure: str) -> str:
    """The heading of a privacy figure; `report` is a stored report. It is `privacy` only if the
    figure is proven for all datasets, the noise was secret, and no attack found evidence against
    it."""
    if figure in COUNTED or raised_alarms(report):
        return "participation" if figure in COUNTED else "privacy_contradicted"
    kind: GuaranteeKind = report["guarantee"]["kind"]
    match kind:
        case "none" | "declared":
            return f"privacy_{kind}"
        case "heuristic" | "formal" if not is_in_force(report):
            return "privacy_not_in_force"
        case "heuristic":
            return "privacy_heuristic"
        case "formal":
            # Where losses ended the run early, the epsilon of all planned rounds is proven. At a
            # delta that may hand one person over, an epsilon promises nothing.
            early = figure == "epsilon_max" and report["privacy"].get("epsilon_planned") is not None
            early |= figure == "epsilon_max" and delta_gives_data_away(report)
            conditional = early or condition_of(report, figure) is not None
            return "privacy_conditional" if conditional else "privacy"
        case _:
            assert_never(kind)


def fairness_section(report: Mapping[str, Any]) -> str:
    """The heading of gaps: the smallest gaps are those of a model that decides nothing, or is not
    shown to decide anything."""
    if why_not_useful(report) is not None:
        return "fairness_no_evidence"
    return "fairness_personal" if personal_method(report) else "fairness"


def _utility_section(report: Mapping[str, Any]) -> str:
    return "utility_personal" if personal_method(report) else "utility"


class PublishingError(Exception):
    """A report cannot be published; the message says why and what to change."""


MODEL_FILE = "model.safetensors"


@dataclass(kw_only=True)
class Publication:
    """One report, and what is published beside it."""

    kind: Literal["experiment", "declared-ledger"]
    id: str
    name: str
    document: Mapping[str, Any]
    """The stored report, with the outcomes that follow from later attacks."""
    context: Mapping[str, str]
    """Context of the figures, by name."""
    settings: Mapping[str, Any]
    """The spec, or the terms of a ledger."""
    times: tuple[str | None, str | None]
    """When it began and ended."""
    figures: Figures
    last_round: int
    """At which the figures are."""
    by_round: Sequence[RoundFigure] = ()
    """Empty from a report file."""
    files: list[Path]
    """Whole files, in the order in which they are published."""
    model_reason: str | None = None
    """Why the trained hypotheses are not among them; None where they are."""
    origin: str
    """The service's address, or `file`."""
    url: str | None = None

    @property
    def passed(self) -> bool:
        """Whether there are gates, all of them passed, and no attack raised an alarm, later ones
        included."""
        outcome = self.document.get("gate_outcome")
        return outcome == "pass" and not raised_alarms(self.document)

    @property
    def id_name(self) -> str:
        """What the id is called among facts."""
        return "experiment_id" if self.kind == "experiment" else "ledger_id"

    def facts(self) -> dict[str, str]:
        """The context of the figures, by name."""
        return {
            **self.context,
            "kind": self.kind,
            self.id_name: self.id,
            "origin": self.origin,
            **({} if self.url is None else {"report_url": self.url}),
            "report_hash": report_hash(self.document),
            "signing_key": self.document["integrity"]["key_id"] or "not signed",
            "guarantee": guarantee_words(self.document["guarantee"]),
            "mechanism": self.document["guarantee"]["mechanism"],
            "gate_outcome": self.document.get("gate_outcome") or "no gate was given",
            "verdict": self.document["verdict"],
            "model": self.model_reason or MODEL_FILE,
        }


def publication(
    document: Mapping[str, Any],
    *,
    page: str,
    folder: Path,
    origin: str,
    url: str | None = None,
    later: Sequence[Mapping[str, Any]] = (),
    rounds: Iterable[Mapping[str, Any]] = (),
    gaps: Iterable[Mapping[str, Any]] = (),
) -> Publication:
    """The publication of a report, its page and its readings, written below `folder`. Of runs
    alone: `later`, requests for attacks after it was signed, whose findings count; `rounds` and
    `gaps` as in `round_figures`. Raises PublishingError if the document is not a report."""
    contents = {"report.json": _json(document), "report.html": page}
    if document.get("declared"):
        parts = _of_ledger(document)
    else:
        if later:
            contents["later-attacks.json"] = _json(later)
            sections = [attack["section"] for one in later for attack in one["items"]]
            document = judged_later(document, sections)
        parts = _of_run(document, rounds=rounds, gaps=gaps)
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
    return Publication(document=document, files=files, origin=origin, url=url, **parts)


def _of_run(
    document: Mapping[str, Any],
    *,
    rounds: Iterable[Mapping[str, Any]],
    gaps: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    try:
        report = parsed(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PublishingError(f"this is not an audit report that can be read: {error}") from None
    return {
        "kind": "experiment",
        "id": report.experiment.id,
        "name": report.experiment.name,
        "context": report_facts(document),
        "settings": report.spec,
        "times": (report.provenance.started_at, report.provenance.finished_at),
        "figures": report_figures(document, report),
        "by_round": list(round_figures(document, report, rounds=rounds, gaps=gaps)),
        "last_round": report.utility.rounds,
    }


def _of_ledger(document: Mapping[str, Any]) -> dict[str, Any]:
    try:
        ledger, terms = document["ledger"], document["terms"].items()
        return {
            "kind": "declared-ledger",
            "id": ledger["id"],
            "name": ledger["name"],
            "context": declared_facts(document),
            # Without the names of clients.
            "settings": {name: value for name, value in terms if name != "subjects"},
            "times": (ledger["first_declared_at"], ledger["last_declared_at"]),
            "figures": declared_figures(document),
            "last_round": ledger["last_round"],
            "model_reason": "the model of a declared ledger is where it was trained",
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise PublishingError(f"this is not a report of a ledger: it lacks {error}") from None


def _json(value: Any) -> str:
    return f"{json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)}\n"


LEDGER_FILE = "ledger.ndjson"
_NO_MODEL_IN_FILE = "a report file has no model; publish by the experiment's id for it"


@contextmanager
def from_service(client: Client, id: str, *, with_ledger: bool = False) -> Iterator[Publication]:
    """The publication of a service's experiment that has ended, or of a declared ledger; its files
    exist within the block. `with_ledger` adds the ledger, which is confidential: the key needs the
    scope `ledger:read`. Raises ClientError, and PublishingError if the report cannot be read."""
    try:
        document = client.report(id)
    except NotFoundError as missing:
        try:
            document = client.ledger_report(id)
        except NotFoundError:
            raise missing from None
    declared = bool(document.get("declared"))
    kind, url, of_run = "ledgers", f"{client.url}/ledgers/{id}/report", dict[str, Any]()
    if not declared:
        kind, url = "experiments", client.page("experiments/{}/report", id)
        of_run = {"later": client.later_attacks(id)["items"]}
        of_run |= {"rounds": client.rows(id, "rounds"), "gaps": client.rows(id, "fairness")}
    with TemporaryDirectory(prefix="fedaudit-") as name:
        folder = Path(name)
        found = publication(
            document,
            page=b"".join(client.call("GET", f"{kind}/{id}/report.html")).decode(),
            folder=folder,
            origin=client.url,
            url=url,
            **of_run,
        )
        if with_ledger:
            ledger = folder / ("bundle.zip" if declared else LEDGER_FILE)
            with ledger.open("wb") as file:
                if declared:
                    client.download_ledger_bundle(id, file)
                else:
                    file.writelines(client.export(id, "ledger"))
            found.files.append(ledger)
        if not declared:
            model = folder / "model" / MODEL_FILE
            model.parent.mkdir()
            try:
                with model.open("wb") as file:
                    client.download_model(id, file)
            except ConflictError as error:
                found.model_reason = error.detail
            else:
                found.files.append(model)
        yield found


@contextmanager
def from_file(path: Path) -> Iterator[Publication]:
    """The publication of a report file of `fedaudit run --out` or `fedaudit report --out`. Raises
    PublishingError if it is not one. The signature is not checked: `fedaudit verify` does that,
    with a bundle."""
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
    with TemporaryDirectory(prefix="fedaudit-") as name:
        try:
            page = render(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PublishingError(f"{path} is not an audit report") from None
        found = publication(document, page=page, folder=Path(name), origin="file")
        found.model_reason = document.get("model_reason") or found.model_reason or _NO_MODEL_IN_FILE
        yield found


def report_facts(document: Mapping[str, Any]) -> dict[str, str]:
    """The context of the figures of an experiment's report alone, by name."""
    useless, answer, in_force = why_not_useful(document), answer_of(document), False
    cost = "unbounded: nothing protects the clients"
    if facts.is_protected(document):
        in_force = is_in_force(document)
        guarantee = guarantee_words({**document["guarantee"], "in_force": in_force})
        cost = f"{guarantee}: {cost_part(document)}"
    return {
        # What has to be known first comes first among names in their order.
        "answer": f"{answer.outcome}: {'; '.join(one.text for one in answer.reasons)}",
        "status": document["experiment"]["status"],
        "spec_hash": document["experiment"]["spec_hash"],
        "guarantee_in_force": "true" if in_force else "false",
        "privacy_cost": cost,
        "model_decides": "true" if useless is None else f"not shown: {useless}",
    }


_COUNTS = {
    "participation": ("privacy", "participations_max", "over_budget"),
    "ledger": ("ledger", "rounds", "missing_rounds", "unreserved_rounds", "refused_rounds"),
}


def declared_figures(document: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a ledger's report that exist, by name. Names have `declared` in them,
    `declared_contradicted` where canaries contradict what was declared, or it does itself, and
    `conditional` where gates want an exception for that too."""
    refuted = document["contradictions"] or status_of(document) == "contradicted"
    mark = "declared_contradicted" if refuted else "declared"
    privacy, conditions = document["privacy"], document["guarantee"]["conditions"]
    found = {}
    for name in ("epsilon_max", "leakage_max", "leakage_median", "log_ratio_max"):
        heading = f"privacy_{mark}{'_conditional' if name in conditions else ''}"
        found[f"{heading}/{name}"] = privacy[name]
    for heading, (section, *names) in _COUNTS.items():
        found |= {f"{heading}_{mark}/{name}": document[section][name] for name in names}
    for gaps in document["fairness"]:
        for name, gap in gaps["metrics"].items():
            found[f"fairness_{mark}/{gaps['attribute']}/{name}"] = gap["value"]
    return {name: value for name, value in found.items() if value is not None}


def declared_facts(document: Mapping[str, Any]) -> dict[str, str]:
    """The context of these figures, by name."""
    privacy, answer = document["privacy"], document["answer"]
    useless = document["utility"]["reasons"].get("degenerate")
    cost = "no finite number bounds what the rounds reveal"
    if privacy["epsilon"]:
        cost = epsilon_words(document)
    elif privacy["leakage_max"] is not None:
        cost = f"a leakage, which is no epsilon, of {at_most(privacy['leakage_max'], digits=4)}"
    return {
        "answer": f"{answer['outcome']}: {'; '.join(one['text'] for one in answer['reasons'])}",
        "terms_hash": document["ledger"]["terms_hash"],
        "privacy_cost": f"as declared, and not observed: {cost}",
        "model_decides": "as declared" if useless is None else f"not shown: {useless}",
    }
