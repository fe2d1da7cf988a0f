"""The commands `list`, `show`, `cancel` and `retry`."""

from collections.abc import Mapping, Sequence
from itertools import islice

from fedaudit.cli.display.experiment_table import show_experiment, show_experiments
from fedaudit.cli.display.output import say, write_json
from fedaudit.cli.failures import ExitCode
from fedaudit.cli.queries import MAX_PAGE, query_parameter
from fedaudit.cli.remote import connected, end_of, show_submitted
from fedaudit_client.pages import experiment_page


def list_command(
    chosen: Mapping[str, str | None],
    where: Sequence[str],
    *,
    sort: str | None,
    most: int,
    as_json: bool,
) -> None:
    """Print the experiments that meet every condition, at most so many. Raises CommandError."""
    filters = {**chosen, **dict(query_parameter(condition) for condition in where)}
    with connected() as client:
        asked = client.list(**filters, sort=sort, limit=min(most, MAX_PAGE))
        found = list(islice(asked, most + 1))
    shown = found[:most]
    if as_json:
        write_json(shown)
    elif shown:
        show_experiments(shown)
    else:
        say("no experiment fits")
    if len(found) > most:
        say(f"there are more experiments than the {most} shown; raise --most, or narrow the list")


def show_command(experiment_id: str, *, as_json: bool) -> None:
    """Print one experiment."""
    with connected() as client:
        experiment, page = client.get(experiment_id), experiment_page(client.url, experiment_id)
    if as_json:
        write_json(experiment)
    else:
        show_experiment(experiment, page=page)


def cancel_command(experiment_id: str, *, as_json: bool) -> None:
    """Ask for an experiment's end."""
    with connected() as client:
        experiment = client.cancel(experiment_id)
    if as_json:
        write_json(experiment)
        return
    if experiment["status"] == "cancelled":
        say(f"{experiment_id} is cancelled; what it has spent stays spent")
    else:
        say(f"{experiment_id} ends after its round; to wait for it: fedaudit watch {experiment_id}")


def retry_command(experiment_id: str, *, wait: bool, as_json: bool) -> ExitCode:
    """Queue an ended experiment's spec again and print the new experiment."""
    with connected() as client:
        experiment = client.retry(experiment_id)
        if wait:
            return end_of(client, experiment, as_json=as_json)
        show_submitted(client, experiment, as_json=as_json)
    return ExitCode.DONE
