"""What can be taken away from a report, as far as a visitor's key allows."""

import json
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import yaml

from api.pages.session import Visitor
from api.schemas.experiments import AttackBody, AttackList, LaterAttacksList
from fedaudit.reports.readings.reading import ReportReading
from fedaudit.reports.readings.readings import READINGS

Form = Literal["json", "yaml", "md"]
MEDIA_TYPES: dict[Form, str] = {
    "json": "application/json",
    "yaml": "application/yaml",
    "md": "text/markdown",
}
_FORM_NAMES: dict[Form, str] = {"json": "JSON", "yaml": "YAML", "md": "Markdown"}


@dataclass(frozen=True)
class Download:
    """One file."""

    what: str
    form: str
    href: str


def downloads(
    base: str,
    visitor: Visitor,
    *,
    attacks: AttackList | None = None,
    later: LaterAttacksList | None = None,
) -> list[Download]:
    """The files of the experiment at the path `base`, the report itself first. `attacks`, `later`:
    what may be shown of them."""
    found = [
        Download("Report", "PDF", f"{base}/report.pdf"),
        Download("Report", "HTML", f"{base}/report.html"),
        Download("Report", "JSON, as it was signed", f"{base}/report.json"),
    ]
    for one in READINGS.values():
        found += reading_downloads(base, one)
    if visitor.may("ledger:read"):
        found.append(
            Download("Bundle", "ZIP, confidential: for fedaudit verify", f"{base}/bundle.zip")
        )
    for attack in [] if attacks is None else attacks.items:
        found += _attack_files(f"{base}/attacks", attack, "Attack")
    for request in [] if later is None else later.items:
        for attack in request.items:
            what = f"Later attacks {request.number}, attack"
            found += _attack_files(f"{base}/attacks/later/{request.id}", attack, what)
    found.append(Download("Public keys", "PEM", "/signing-keys.pem"))
    return found


def _attack_files(base: str, attack: AttackBody, what: str) -> list[Download]:
    return [
        Download(
            f"{what} {attack.position + 1}, {attack.section.kind}",
            f"{one.name}, confidential",
            f"{base}/{attack.position}/{one.name}",
        )
        for one in attack.files
    ]


def reading_downloads(base: str, one: ReportReading) -> list[Download]:
    """The files of one reading."""
    return [
        Download(one.title, _FORM_NAMES[form], f"{base}/files/{one.name}.{form}")
        for form in forms_of(one)
    ]


def forms_of(one: ReportReading) -> tuple[Form, ...]:
    """The forms in which a reading can be had; one that is text has no schema."""
    return ("md",) if one.schema is None else ("json", "yaml")


def written(found: dict[str, Any] | str, form: Form) -> str:
    """A reading as the content of a file."""
    if isinstance(found, str):
        return found
    match form:
        case "yaml":
            return yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
        case "json" | "md":
            return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        case _:
            assert_never(form)
