"""The radius and the clip that a leakage is counted under.

n/nu holds between uploads within the radius, which is free: the same noise has a leakage of 54 at
one radius and of a millionth of it at another. Leakages of different radii are therefore different
figures, and a budget of one does not count the other.
"""

from dataclasses import dataclass
from typing import Literal, Self

LeakageRadius = float | Literal["adaptive"]

_ADAPTIVE: Literal["adaptive"] = "adaptive"
_NO_CLIP = "none"


@dataclass(frozen=True)
class LeakageTerms:
    """One pair of a radius and a clip; a clip of None means that updates are not clipped."""

    radius: LeakageRadius
    clip: float | None

    @classmethod
    def of(cls, *, radius: float | None, clip: float | None) -> Self:
        """Of a mechanism's parameters, where a radius of None is adaptive."""
        return cls(_ADAPTIVE if radius is None else radius, clip)

    @property
    def key(self) -> str:
        """The pair in canonical words of at most 64 characters: equal numbers give equal words."""
        radius = self.radius if isinstance(self.radius, str) else repr(float(self.radius))
        clip = _NO_CLIP if self.clip is None else repr(float(self.clip))
        return f"radius={radius},clip={clip}"

    @classmethod
    def read(cls, key: str) -> Self | None:
        """The inverse of `key`; None for '', of a radius and a clip that were not
        recorded. Raises ValueError for anything else."""
        if not key:
            return None
        parts = [part.partition("=") for part in key.split(",")]
        if [name for name, _, _ in parts] != ["radius", "clip"]:
            raise ValueError(f"{key!r} names no radius and clip")
        (_, _, radius), (_, _, clip) = parts
        return cls(
            _ADAPTIVE if radius == _ADAPTIVE else float(radius),
            None if clip == _NO_CLIP else float(clip),
        )

    def __str__(self) -> str:
        radius = "an adaptive radius" if isinstance(self.radius, str) else f"radius {self.radius:g}"
        return f"{radius} {'without a clip' if self.clip is None else f'and clip {self.clip:g}'}"
