"""How a field of the spec stands in a form that people fill in."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class InForm:
    """Annotates a field that the form has; the others are given in a document alone.

    What may be typed, and for which choices the field counts, follows from the spec. On a union it
    describes the choice between its members.
    """

    label: str
    initial: str = ""
    """What the form begins with; a switch is on where it is not empty."""
    hint: str = ""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Texts of choices; with one for `""` a spec may leave the field out."""


# Of fields that several mechanisms have.
NU = InForm("Noise multiplier (nu)", "1", "More is more noise, and costs less.")
RADIUS = InForm(
    "Radius",
    "2",
    "A public number of at least twice the clip makes the guarantee formal for all data: two "
    "clipped updates never lie farther apart. It is in force once the noise is `release`. "
    "adaptive: heuristic.",
)
CLIP = InForm(
    "Clip",
    "1",
    "Bound on the norm of an update, or of a record's gradient. laplace-l2 may go without: its "
    "guarantee then covers some data only.",
)
DELTA = InForm("Delta", "1e-5")
ACCOUNTANT = InForm("Accountant", "rdp")
EPSILON_BUDGET = InForm(
    "Epsilon budget", hint="Empty: none. Epsilon at delta that is never passed."
)
NOISE = InForm(
    "Noise",
    "simulation",
    "simulation: repeatable, and the model is not for release. release: secret noise.",
)
PERSONAL_STEPS = InForm(
    "Personal steps",
    "10",
    "Of gradient descent, each over all rows that a client tunes its own model on.",
)
PERSONAL_STEP_SIZE = InForm("Personal step size", hint="Empty: the step size of rounds.")
