"""Choosing an answer's form by the header Accept (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Request

_ANY = "*/*"


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The offered media type that is accepted best; the first of them where none is.

    Of equally good ones the first offered is taken. Parameters other than `q` are passed over.
    """
    weights = dict(filter(None, map(_weighted, accept.split(","))))
    quality = [_quality(media_type, weights) for media_type in offered]
    return offered[quality.index(max(quality))]


def _weighted(part: str) -> tuple[str, float] | None:
    media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = min(max(float(value), 0.0), 1.0)
            except ValueError:
                weight = 0.0
    return (media_type, weight) if media_type else None


def _quality(media_type: str, weights: dict[str, float]) -> float:
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", _ANY)
    return next((weights[one] for one in ranges if one in weights), 0.0)


def _accept(request: Request) -> str:
    return ",".join(request.headers.getlist("accept")) or _ANY


Accept = Annotated[str, Depends(_accept)]
