"""Layers of a network as lines of text: a kind and its numbers, as in `convolution 8 5`."""

from functools import cache
from typing import Any, get_args

from api.pages.spec_form.typed_number import number
from fedaudit.spec.errors import FieldError
from fedaudit.spec.models import LayerSpec

POINTER = "/model/layers"
_KIND = "kind"


def layers_of(typed: str) -> list[dict[str, Any]]:
    """The layers that the lines come to; lines without a word count for nothing.

    Nothing is refused here: the spec names a kind that it does not have, a number that is missing,
    and one too many.
    """
    return [_layer(line.replace(",", " ").split()) for line in typed.splitlines() if line.strip()]


def usage() -> str:
    """Every kind with the names of its numbers; those in brackets may be left out."""
    return "; ".join(" ".join((name, *words)) for name, words in _usages().items())


def fault_of_layer(fault: FieldError, typed: str) -> FieldError:
    """The fault in the words of the lines: which layer, which of its numbers, how it is written."""
    start, _, within = fault.pointer.partition(f"{POINTER}/")
    place, _, name = within.partition("/")
    layers = layers_of(typed)
    if start or not place.isdigit() or int(place) >= len(layers):
        return fault
    kind = str(layers[int(place)][_KIND])
    where = f"layer {int(place) + 1} (`{kind}`)"
    if name and name != _KIND:
        where += f", {name}"
    message = f"{where}: {fault.message}"
    if name and kind in _usages():
        message += f"; write `{' '.join((kind, *_usages()[kind]))}`"
    return FieldError(fault.pointer, message, of_spec=fault.of_spec)


def _layer(words: list[str]) -> dict[str, Any]:
    kind, *numbers = words
    names = [word.strip("[]").casefold() for word in _usages().get(kind, ())]
    # A number too many goes on under its own name, which no layer has.
    names += numbers[len(names) :]
    return {_KIND: kind, **dict(zip(names, map(number, numbers), strict=False))}


@cache
def _usages() -> dict[str, tuple[str, ...]]:
    """Kind -> the names of its numbers, in the order of the spec's fields."""
    found = {}
    for part in get_args(get_args(LayerSpec)[0]):
        fields = {name: one for name, one in part.model_fields.items() if name != _KIND}
        words = (
            name.upper() if one.is_required() else f"[{name.upper()}]"
            for name, one in fields.items()
        )
        numbers = tuple(words)
        for kind in get_args(part.model_fields[_KIND].annotation):
            found[kind] = numbers
    return found
