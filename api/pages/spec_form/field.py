"""One field of the form."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "text", "number", "numbers", "vectors", "words", "sets", "choice", "switch", "layers"
]
Choices = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Field:
    """A field; its name in the form is the JSON pointer of the spec's field.

    `numbers` and `words` are lists with commas; `vectors` lists of numbers, and `sets` words with
    `+`, between semicolons; `layers` a layer a line.
    """

    pointer: str
    label: str
    kind: Kind = "number"
    initial: str = ""
    """What the form begins with; a switch is on where it is not empty."""
    hint: str = ""
    choices: Choices = ()
    only: tuple[str, ...] = ()
    """Choices made elsewhere in the form for which the field counts; empty where it always does."""

    @property
    def id(self) -> str:
        """The element's id."""
        return f"field{self.pointer.replace('/', '-')}"


@dataclass(frozen=True)
class Section:
    """Fields under one heading."""

    name: str
    title: str
    fields: tuple[Field, ...]
