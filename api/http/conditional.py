"""Changes that overwrite nothing unseen (RFC 9110, section 13): `If-Match` refuses to change what
is no longer as the client saw it, by the `ETag` of what it read."""

import hashlib
from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel

from api.http.problems import ProblemError

_BETWEEN = "."
"""Between the parts of a tag."""


def tag_of(body: BaseModel, *, settings: bytes | None = None) -> str:
    """The tag of what a model shows. `settings`: what of it a change would overwrite, where the
    rest changes by itself, as spending does beside totals. The tag then has a part for each, and
    `If-Match` is compared by the first."""
    whole = body.model_dump_json().encode()
    parts = (whole,) if settings is None else (settings, whole)
    return f'"{_BETWEEN.join(hashlib.sha256(part).hexdigest()[:32] for part in parts)}"'


def _settings_part(tag: str) -> str:
    return tag.strip().removeprefix("W/").strip('"').partition(_BETWEEN)[0]


class Preconditions:
    """What the client of a change states of the state that it knows."""

    def __init__(self, request: Request) -> None:
        lines = request.headers.getlist("if-match")
        self._known = [one for line in lines for one in line.split(",")]

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(self._known)

    def demand(self, current: BaseModel, *, settings: bytes | None = None) -> None:
        """Raises ProblemError where the present state is not as demanded. `settings` as in
        `tag_of`."""
        tag = tag_of(current, settings=settings)
        known = map(_settings_part, self._known)
        if self._known and not {_settings_part(tag), "*"} & set(known):
            detail = "it has changed since; get it again and decide anew"
            raise ProblemError(412, "precondition-failed", detail, headers={"ETag": tag})


Stated = Annotated[Preconditions, Depends(Preconditions)]
