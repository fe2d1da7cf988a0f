"""Calls about attacks: what they found. All of it is confidential."""

from collections.abc import AsyncGenerator
from typing import Any

from fedaudit_client.http.answers import content, json_as
from fedaudit_client.http.calls import Calls, call, stream
from fedaudit_client.http.request import Request, experiment_path, path_part


class AttackCalls(Calls):
    """What attacks on an experiment found."""

    @call
    def attacks(self, experiment_id: str) -> Request[dict[str, Any]]:
        """The attacks of the experiment's report as `items`: `position`, `section`, `files`."""
        return Request("GET", f"{experiment_path(experiment_id)}/attacks", json_as(dict[str, Any]))

    @stream
    def attack_file(
        self, experiment_id: str, position: int, name: str
    ) -> AsyncGenerator[bytes, None]:
        """A file of an attack, as its bytes come."""
        path = f"{experiment_path(experiment_id)}/attacks/{position}/{path_part(name)}"
        return self._wire.read(Request("GET", path, content))
