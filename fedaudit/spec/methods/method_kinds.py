"""The methods of training, and what each asks of the rest of a spec.

A method says what clients send in a round, and whether a held-out client makes a model of its own
before it is scored. No method changes what a mechanism covers: where it would, it is refused.
"""

from abc import abstractmethod
from typing import Annotated, Any, Literal, assert_never, get_args

from pydantic import BeforeValidator, Field

from fedaudit.spec.base import SpecPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.in_form import PERSONAL_STEP_SIZE, PERSONAL_STEPS, InForm
from fedaudit.spec.sources import LeaveOneOut, RowSplit, Source

PersonalStepCount = Annotated[int, Field(ge=1, le=10_000)]
StepSize = Annotated[float, Field(gt=0, le=1e6)]
_KIND = "/training/method/kind"


class MethodPart(SpecPart):
    """A method, which has no answer by default: one that leaves any out cannot be made."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The literal of `kind`."""
        found: tuple[str, ...] = get_args(cls.model_fields["kind"].annotation)
        return found

    @property
    @abstractmethod
    def personalises(self) -> bool:
        """Whether a held-out client is scored by a model of its own, made from some of its rows."""

    @property
    @abstractmethod
    def releases(self) -> bool:
        """Whether anything leaves a client that trains."""

    @abstractmethod
    def disagreements(self, *, hypotheses: int, mechanism: str, source: Source) -> Refusals:
        """Every fault between the method and the rest, each with its field and the remedy."""


class Hypotheses(MethodPart):
    """k hypotheses (Galli et al., Algorithm 1), of which FedAvg (k = 1) and IFCA are cases."""

    kind: Literal["hypotheses"]

    @property
    def personalises(self) -> bool:
        """False: clients choose a hypothesis, and do not change it for themselves."""
        return False

    @property
    def releases(self) -> bool:
        """True: updates."""
        return True

    def disagreements(self, *, hypotheses: int, mechanism: str, source: Source) -> Refusals:
        """None."""
        yield from ()


class FineTuning(MethodPart):
    """As `hypotheses`; then each client descends from its hypothesis on its own rows."""

    kind: Literal["fine-tuning"]
    steps: Annotated[PersonalStepCount, PERSONAL_STEPS] = 10
    """Steps of gradient descent, each over all rows that the client tunes on."""
    step_size: Annotated[StepSize | None, PERSONAL_STEP_SIZE] = None
    """Null is that of `local`."""

    @property
    def personalises(self) -> bool:
        """True: by descent from the hypothesis."""
        return True

    @property
    def releases(self) -> bool:
        """True: updates, as without tuning. What is tuned stays."""
        return True

    def disagreements(self, *, hypotheses: int, mechanism: str, source: Source) -> Refusals:
        """See `MethodPart`."""
        yield from _check_split(self.kind, source)
        yield from _check_updates(self.kind, mechanism)


class Ditto(MethodPart):
    """A model by FedAvg, and for each client one of its own that is held near it (Li et al. 2021).

    The personal model descends its client's loss plus `proximal`/2 times the squared distance from
    the common model.
    """

    kind: Literal["ditto"]
    proximal: Annotated[
        Annotated[float, Field(ge=0, le=1e6)],
        InForm("Pull towards the common model (lambda)", "0.1", "0: none, as fine-tuning."),
    ] = 0.1
    """lambda."""
    steps: Annotated[PersonalStepCount, PERSONAL_STEPS] = 10
    """As in `fine-tuning`."""
    step_size: Annotated[StepSize | None, PERSONAL_STEP_SIZE] = None
    """Null is that of `local`."""

    @property
    def personalises(self) -> bool:
        """True: by descent from the common model, and towards it."""
        return True

    @property
    def releases(self) -> bool:
        """True: updates of the common model. Personal models stay."""
        return True

    def disagreements(self, *, hypotheses: int, mechanism: str, source: Source) -> Refusals:
        """See `MethodPart`."""
        yield from _check_split(self.kind, source)
        yield from _check_updates(self.kind, mechanism)
        yield from _check_one(self.kind, hypotheses)


class QFfl(MethodPart):
    """Clients with a larger loss count for more: q-FedAvg (Li et al. 2020, Algorithm 2)."""

    kind: Literal["q-ffl"]
    q: Annotated[
        Annotated[float, Field(ge=0, le=100)],
        InForm("Weight of large losses (q)", "1", "0: FedAvg."),
    ] = 1.0
    """The power of a client's loss that its update is weighted by."""

    @property
    def personalises(self) -> bool:
        """False: there is one model for everybody."""
        return False

    @property
    def releases(self) -> bool:
        """True: updates weighted by the loss, and a number made of it."""
        return True

    def disagreements(self, *, hypotheses: int, mechanism: str, source: Source) -> Refusals:
        """See `MethodPart`."""
        yield from _check_one(self.kind, hypotheses)
        if mechanism != "none":
            yield refuse_at(
                _KIND,
                "q-ffl weights an update by the client's loss and sends a number made of both "
                f"beside it, by which the server divides; clip and noise of {mechanism} are for "
                "the update alone, and its figures would not hold; use `mechanism: none`, or "
                "another method",
            )


class LocalOnly(MethodPart):
    """Every client trains a model of its own on its own rows, and nothing is sent.

    No round is played: `rounds`, `cohort`, `stopping` and the other fields of `local` than
    `step_size` have no effect.
    """

    kind: Literal["local-only"]
    steps: Annotated[PersonalStepCount, PERSONAL_STEPS] = 100
    """Steps of gradient descent from `model.start`, each over all rows that the client trains
    on."""
    step_size: Annotated[StepSize | None, PERSONAL_STEP_SIZE] = None
    """Null is that of `local`."""

    @property
    def personalises(self) -> bool:
        """True: by descent from the start."""
        return True

    @property
    def releases(self) -> bool:
        """False."""
        return False

    def disagreements(self, *, hypotheses: int, mechanism: str, source: Source) -> Refusals:
        """See `MethodPart`."""
        yield from _check_split(self.kind, source)
        yield from _check_one(self.kind, hypotheses)
        if mechanism != "none":
            yield refuse_at(
                _KIND,
                f"local-only sends nothing that {mechanism} could protect, and a figure of it "
                "would be of nothing; use `mechanism: none`, or another method",
            )


def _named(method: Any) -> Any:
    return {"kind": method} if isinstance(method, str) else method


TrainingMethod = Annotated[
    Hypotheses | FineTuning | Ditto | QFfl | LocalOnly,
    Field(discriminator="kind"),
    BeforeValidator(_named),
]
"""By its fields, or by its kind alone."""
DEFAULT_METHOD = Hypotheses(kind="hypotheses")
METHOD_WORDS = {
    "hypotheses": "hypotheses: clients choose among k models",
    "fine-tuning": "fine-tuning: of these, each client makes its own",
    "ditto": "ditto: a common model, and each client's own near it",
    "q-ffl": "q-ffl: large losses count for more",
    "local-only": "local-only: nothing is sent",
}
"""What forms say of each."""


def method_parts() -> tuple[type[MethodPart], ...]:
    """The members of the union, in its order."""
    parts: tuple[type[MethodPart], ...] = get_args(get_args(TrainingMethod)[0])
    return parts


def _check_split(kind: str, source: Source) -> Refusals:
    """Refuses scores on rows that a personal model was tuned on."""
    match source.scoring:
        case RowSplit():
            return
        case LeaveOneOut():
            yield refuse_at(
                "/federation/scoring",
                f"{kind} makes a model of each held-out client's rows, which must not be scored on "
                "the same rows; use {method: split, fraction: 0.5}: the client tunes on its other "
                "rows",
            )
        case _:
            assert_never(source.scoring)


def _check_updates(kind: str, mechanism: str) -> Refusals:
    """Refuses training record by record, which has a way of its own."""
    if mechanism == "record-personalised":
        yield refuse_at(
            _KIND,
            f"{mechanism} gives each record a budget for training, and none for {kind}; use "
            "`hypotheses`, or a mechanism of whole updates",
        )


def _check_one(kind: str, hypotheses: int) -> Refusals:
    if hypotheses > 1:
        yield refuse_at(
            "/training/hypotheses", f"{kind} gives clients no hypotheses to choose from; use 1"
        )
