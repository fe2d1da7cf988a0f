"""Calls on the API keys of the key's project."""

from collections.abc import Sequence

from fedaudit_client.http.answers import items, json_as, nothing
from fedaudit_client.http.calls import Calls, call
from fedaudit_client.http.request import Request, path_part
from fedaudit_client.result_types import Key, NewKey


class KeyCalls(Calls):
    """What can be done with keys."""

    @call
    def keys(self) -> Request[Sequence[Key]]:
        """The project's API keys, without their secrets."""
        return Request("GET", "api-keys", items)

    @call
    def create_key(self, *, name: str, scopes: Sequence[str]) -> Request[NewKey]:
        """A new key; `key` in the answer is shown this once."""
        body = {"name": name, "scopes": list(scopes)}
        return Request("POST", "api-keys", json_as(NewKey), body={"json": body})

    @call
    def rotate_key(self, key_id: str, *, overlap_seconds: int = 86400) -> Request[NewKey]:
        """A new secret for a key, in `key`, shown this once; the old one opens it for so long."""
        path = f"api-keys/{path_part(key_id)}/rotation"
        return Request("POST", path, json_as(NewKey), params={"overlap_seconds": overlap_seconds})

    @call
    def revoke_key(self, key_id: str) -> Request[None]:
        """End a key."""
        return Request("DELETE", f"api-keys/{path_part(key_id)}", nothing)
