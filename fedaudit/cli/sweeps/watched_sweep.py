"""Following a sweep of the service to its end."""

from contextlib import closing

from fedaudit.cli.display.output import say
from fedaudit.cli.display.progress import cells_bar
from fedaudit_client.client import Client
from fedaudit_client.sweep_types import Sweep


def followed(client: Client, sweep: Sweep) -> Sweep:
    """The sweep once all cells have ended; until then a progress bar, where somebody watches."""
    id_, progress, ended = sweep["id"], sweep["progress"], sweep
    try:
        with (
            cells_bar(
                sweep["name"], cells=progress["cells"], rounds=progress["rounds_total"]
            ) as advance,
            closing(client.watch_sweep(id_)) as states,
        ):
            for ended in states:
                advance(ended["progress"]["ended"], ended["progress"]["rounds"])
    except KeyboardInterrupt:
        say(f"\nit goes on; to follow it again: fedaudit sweeps watch {id_}")
        say(f"to end it: fedaudit sweeps cancel {id_}")
        raise
    return ended
