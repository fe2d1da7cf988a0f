"""A dossier as a page, and as the files of one folder."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedaudit.ledger.bundle import Evidence, key_fields
from fedaudit.reports.checks import canonical_json
from fedaudit.reports.dossier.dossier import LATER_FILE, REPORT_FILE, SIGN_OFFS_FILE, dossier

if TYPE_CHECKING:
    from fedaudit.reports.page.html import Link

DOCUMENT, PAGE, PDF = "dossier.json", "dossier.html", "dossier.pdf"
KEYS_FILE, SUMS = "keys.json", "SHA256SUMS"
_MOST_FIGURES, _MOST_GATES = 14, 12
"""Lines of a table on the page, so that it has four pages of paper; the document has all."""
_LONG, _LONG_ANSWER = 330, 560
"""Characters of a statement on the page."""


def dossier_page(document: Mapping[str, Any], *, links: Sequence["Link"] = ()) -> str:
    """The page of a dossier; every value in it is escaped. It fetches and runs nothing. `links` are
    shown above it; a page for download has none."""
    # Imported here because a check of hashes needs no templates.
    from fedaudit.reports.page.html import page_environment

    gates = sorted(document["criteria"]["thresholds"], key=lambda one: one["outcome"] == "pass")
    return (
        page_environment()
        .get_template("dossier.html")
        .render(
            d=document,
            hashes={one["name"]: one["sha256"] for one in document["evidence"]},
            figures=[_shortened(one, _LONG) for one in document["figures"][:_MOST_FIGURES]],
            left_figures=max(0, len(document["figures"]) - _MOST_FIGURES),
            gates=gates[:_MOST_GATES],
            left_gates=max(0, len(gates) - _MOST_GATES),
            controls=[
                {**one, "answers": [_shortened(said, _LONG_ANSWER) for said in one["answers"]]}
                for one in document["controls"]
            ],
            links=links,
        )
    )


def _shortened(part: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {
        name: f"{value[: most - 1]}…" if isinstance(value, str) and len(value) > most else value
        for name, value in part.items()
    }


def dossier_of(evidence: Evidence) -> dict[str, Any]:
    """The dossier of what an experiment left. Raises as `dossier` does, and ValueError without a
    report."""
    if evidence.report is None:
        raise ValueError("the experiment has no report")
    return dossier(evidence.report, sign_offs=evidence.sign_offs, later=evidence.later_attacks)


def dossier_files(
    evidence: Evidence, *, printed: Callable[[str], bytes] | None
) -> dict[str, bytes]:
    """The files of the folder by name, all JSON in canonical form (RFC 8785), so that the SHA-256
    of report.json is the one that sign-offs name. `printed` makes a PDF of a page; without it there
    is none. Raises as `dossier_of` does."""
    document = dossier_of(evidence)
    page = dossier_page(document)
    contents: dict[str, Any] = {
        DOCUMENT: document,
        REPORT_FILE: evidence.report,
        SIGN_OFFS_FILE: list(evidence.sign_offs) or None,
        LATER_FILE: list(evidence.later_attacks) or None,
        KEYS_FILE: [key_fields(key, evidence.compromised) for key in evidence.keys],
    }
    files = {name: canonical_json(value) for name, value in contents.items() if value is not None}
    files[PAGE] = page.encode()
    if printed is not None:
        files[PDF] = printed(page)
    return {**files, SUMS: sums_of(files)}


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """The lines that `sha256sum --check` reads."""
    names: Sequence[str] = sorted(files)
    return "".join(f"{hashlib.sha256(files[one]).hexdigest()}  {one}\n" for one in names).encode()
