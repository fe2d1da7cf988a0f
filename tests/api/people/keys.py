"""Keys that belong to somebody."""

from models.vocabulary import PROJECT_SCOPES
from tests.api.service import Api


def key_of(api: Api, name: str, *scopes: str) -> str:
    """A key of a person, with these scopes or with every one."""
    asked = {"name": f"{name}'s key", "scopes": scopes or PROJECT_SCOPES, "person": {"name": name}}
    made = api.post("/v1/api-keys", json=asked)
    assert made.status_code == 201, made.text
    return str(made.json()["key"])
