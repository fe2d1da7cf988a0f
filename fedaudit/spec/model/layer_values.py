"""What passes from layer to layer of a network: rows, or maps of an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from fedaudit.spec.model.layers import Activation, Convolution, Dense, Flatten, LayerSpec, Pooling

MAX_VALUES = 1 << 24
"""Numbers that all layers together may give for one row of data: 64 MiB."""


@dataclass(frozen=True)
class Rows:
    """A row of numbers."""

    width: int | None
    """None where the data decide it."""

    @property
    def numbers(self) -> int:
        """How many they are, as far as is known."""
        return self.width or 0


@dataclass(frozen=True)
class Maps:
    """An image, or what convolutions make of it."""

    height: int
    width: int
    channels: int

    @property
    def numbers(self) -> int:
        """How many they are."""
        return self.height * self.width * self.channels

    @property
    def words(self) -> str:
        """For messages."""
        return f"maps of {self.height} by {self.width} with {self.channels} channels"


Values = Rows | Maps


class LayerError(ValueError):
    """A layer that cannot take what it is given; `place` counts from 0."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


def values_between(layers: Sequence[LayerSpec], given: Values) -> list[Values]:
    """What each layer is given, and at the end what the last one gives: a row.

    Raises LayerError where a layer cannot take it, or the values grow beyond MAX_VALUES.
    """
    found, total = [given], given.numbers
    for place, layer in enumerate(layers):
        found.append(_passed(place, layer, found[-1]))
        total += found[-1].numbers
        if total > MAX_VALUES:
            raise LayerError(
                place,
                f"`{layer.kind}` brings the numbers that the layers give for one row to {total}, "
                f"and {MAX_VALUES} are allowed; use fewer filters or units, or pool before it",
            )
    last = found[-1]
    if isinstance(last, Maps):
        raise LayerError(
            len(layers) - 1,
            f"the last layer gives {last.words}, and the outputs are computed from a row; end with "
            "`flatten`",
        )
    return found


def _passed(place: int, layer: LayerSpec, given: Values) -> Values:
    match layer:
        case Dense():
            if isinstance(given, Maps):
                raise LayerError(
                    place, f"`dense` takes a row and is given {given.words}; put `flatten` before"
                )
            return Rows(layer.units)
        case Convolution():
            return _over(
                place,
                layer.kind,
                given,
                size=layer.size,
                stride=layer.stride,
                padding=layer.padding,
                channels=layer.filters,
            )
        case Pooling():
            return _over(place, layer.kind, given, size=layer.size, stride=layer.size)
        case Flatten():
            if isinstance(given, Rows):
                raise LayerError(place, "`flatten` takes maps and is given a row; leave it out")
            return Rows(given.numbers)
        case Activation():
            return given
        case _:
            assert_never(layer)


def _over(
    place: int,
    kind: str,
    given: Values,
    *,
    size: int,
    stride: int,
    padding: int = 0,
    channels: int | None = None,
) -> Maps:
    """What a square that moves over maps gives; as many channels as before where None is given."""
    if isinstance(given, Rows):
        raise LayerError(
            place,
            f"`{kind}` takes maps and is given a row; name the images' height, width and channels "
            "in `input`, and put it before `flatten` and `dense`",
        )
    height, width = (
        (side + 2 * padding - size) // stride + 1 for side in (given.height, given.width)
    )
    if min(height, width) < 1:
        raise LayerError(
            place, f"`{kind}` of {size} by {size} does not fit {given.words}; use a smaller one"
        )
    return Maps(height, width, given.channels if channels is None else channels)
