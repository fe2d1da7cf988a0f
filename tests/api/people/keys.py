"""Keys that belong to somebody."""

from models.vocabulary import PROJECT_SCOPES
from tests.api.answers import body_of
from tests.api.service import Api


def key_of(api: Api, name: str, *scopes: str) -> str:
    """A key of a person, with these scopes or with every one."""
    asked = {"name": f"{name}'s key", "scopes": scopes or PROJECT_SCOPES, "person": {"name": name}}
    return str(body_of(api.post("/v1/api-keys", json=asked), 201)["key"])
