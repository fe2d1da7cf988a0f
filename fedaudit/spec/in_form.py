"""How a field of the spec stands in a form that people fill in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InForm:
    """Annotates a field that the form has; the others are given in a document alone.

    What may be typed, and for which choices the field counts, follows from the spec.
    """

    label: str
    initial: str = ""
    """What the form begins with; a switch is on where it is not empty."""
    hint: str = ""
