"""Following an experiment of the service to its end."""

from collections.abc import Mapping
from typing import Any

from fedaudit.cli.display.output import say
from fedaudit.cli.display.progress import rounds_bar
from fedaudit_client.client import Client
from fedaudit_client.result_types import Experiment


def follow(client: Client, experiment: Mapping[str, Any]) -> Experiment:
    """The experiment once it has ended; until then a progress bar, where somebody watches."""
    total = experiment["progress"]["rounds"]
    try:
        with rounds_bar(experiment["name"], total=total) as progress:
            for event in client.watch(experiment["id"]):
                if event.type == "round.completed":
                    progress(event.data["round"])
    except KeyboardInterrupt:
        id_ = experiment["id"]
        say(f"\nit goes on; to follow it again: fedaudit watch {id_}")
        say(f"to end it: fedaudit cancel {id_}")
        raise
    return client.get(experiment["id"])
