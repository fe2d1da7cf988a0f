"""What the API answered."""

from typing import Any


def body_of(response: Any, status: int = 200) -> Any:
    """The JSON of an answer; fails with all of it where it has another status."""
    assert response.status_code == status, response.text
    return response.json()
