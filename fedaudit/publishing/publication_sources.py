"""Where a publication comes from: a running service, or a report file."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedaudit.publishing.extras import PublishingError
from fedaudit.publishing.later_found import later_found
from fedaudit.publishing.publication import MODEL_FILE, Publication, publication
from fedaudit.publishing.published_figures import NOT_IN_FILE, add_rounds
from fedaudit.publishing.report_facts import refuse_declared
from fedaudit.reports.page.html import render
from fedaudit_client.client import Client
from fedaudit_client.errors import ProblemError
from fedaudit_client.pages import report_page

LEDGER_FILE = "ledger.ndjson"
_NO_MODEL_IN_FILE = "a report file has no model; publish by the experiment's id for it"
_CONFLICT = 409


@contextmanager
def from_service(
    client: Client, experiment_id: str, *, with_ledger: bool = False
) -> Iterator[Publication]:
    """What a service has of an experiment that has ended; its files are there within the block.

    `with_ledger` adds the ledger, which is confidential: the key needs the scope `ledger:read`.
    Raises ClientError, and PublishingError where the report cannot be read.
    """
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
        _add_model(found, client, folder / MODEL_FILE)
        yield found


@contextmanager
def from_file(path: Path) -> Iterator[Publication]:
    """A report file, as `fedaudit run --out` and `fedaudit report --out` write it.

    Raises PublishingError where it is none. Its signature is not checked: `fedaudit verify` does
    that, with a bundle.
    """
    document = read_document(path)
    # Before its page is made, which would only say that it is no report of a run.
    refuse_declared(document)
    with TemporaryDirectory(prefix="fedaudit-") as name:
        try:
            page = render(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PublishingError(f"{path} is no audit report") from None
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
        raise PublishingError(f"{path} is no JSON: {error}") from None
    if not isinstance(document, Mapping) or "report_version" not in document:
        raise PublishingError(f"{path} is no audit report; `fedaudit report ID --out` writes one")
    return document


def _add_model(found: Publication, client: Client, path: Path) -> None:
    try:
        with path.open("wb") as file:
            client.download_model(found.experiment_id, file)
    except ProblemError as error:
        if error.status != _CONFLICT:
            raise
        path.unlink()
        found.model_reason = error.detail
    else:
        found.model = path
