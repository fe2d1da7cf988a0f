"""Following an experiment of the service to its end."""

from typing import Any

from fedaudit.cli.display.output import say
from fedaudit.cli.display.progress import rounds_bar
from fedaudit.client.client import Client


def follow(client: Client, experiment: dict[str, Any]) -> dict[str, Any]:
    """The experiment once it has ended; until then a progress bar, where somebody watches."""
    total = experiment["progress"]["rounds"]
    try:
        with rounds_bar(experiment["name"], total=total) as progress:
            for event in client.watch(experiment["id"]):
                if event.type == "round.completed":
                    progress(event.data["round"])
    except KeyboardInterrupt:
        say(f"\nit goes on; to follow it again: fedaudit watch {experiment['id']}")
        raise
    return client.get(experiment["id"])
