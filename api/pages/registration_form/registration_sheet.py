"""The form as it is shown: the table's columns, what stands in the fields, what is wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.pages.registration_form import names
from api.pages.registration_form.typed_registration import TypedRegistration
from api.pages.spec_form.field_errors import is_within
from api.services.pending_uploads import LookedAt
from fedaudit.federations.proposals.column_survey import Column
from fedaudit.spec.errors import FieldError, pointer
from models.tables.federations import PendingUpload


@dataclass(frozen=True)
class RegistrationFault:
    """A fault; `place` is the name of a field, and None where it belongs to none."""

    pointer: str
    message: str
    place: str | None


@dataclass(frozen=True)
class ColumnView:
    """One column of the table, and why the proposal takes it as it does."""

    place: int
    name: str
    facts: str
    reason: str


@dataclass(frozen=True)
class RegistrationSheet:
    """One showing of the form."""

    upload: PendingUpload
    looked: LookedAt
    typed: Mapping[str, str]
    faults: Sequence[RegistrationFault] = ()
    refusal: str | None = None

    @property
    def columns(self) -> list[ColumnView]:
        """In the table's order."""
        reasons = self._reasons
        return [
            ColumnView(place, one.name, _facts(one), reasons.get(one.name, ""))
            for place, one in enumerate(self.looked.survey.columns)
        ]

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The columns, to choose one from."""
        return [(one.name, one.name) for one in self.looked.survey.columns]

    @property
    def joins(self) -> list[tuple[int, str]]:
        """Attributes that several columns may hold together, by their place."""
        proposal = self.looked.proposal
        return [] if proposal is None else list(enumerate(proposal.joinable))

    def guess(self, field: str) -> str:
        """Why a field of the registration was proposed as it was."""
        proposal = self.looked.proposal
        return "" if proposal is None else proposal.guesses.get(field, "")

    def text(self, name: str) -> str:
        """What stands in a field."""
        return self.typed.get(name, "")

    def part(self, place: int, part: str) -> str:
        """What stands in a field of a column."""
        return self.text(names.of_column(place, part))

    def wrong(self, name: str) -> list[str]:
        """What is wrong with a field."""
        return [fault.message for fault in self.faults if fault.place == name]

    def more_open(self, place: int) -> bool:
        """Whether the rarer fields of a column are unfolded: something stands in them, or is wrong
        with them."""
        rarer = [names.of_column(place, part) for part in ("scale", "edges", "labels")]
        return any(self.text(name) or self.wrong(name) for name in rarer)

    @property
    def _reasons(self) -> dict[str, str]:
        proposal = self.looked.proposal
        if proposal is None:
            return {}
        found = {name: f"left out: {why}" for name, why in proposal.left_out.items()}
        proposed = proposal.registration
        for room, part in (("federation", "features"), ("fairness", "sensitive")):
            for place, one in enumerate(proposed[room].get(part, ())):
                why = proposal.guesses.get(pointer(room, part, place))
                if why:
                    found[one if isinstance(one, str) else one["name"]] = why
        return found


def faults_at(errors: Sequence[FieldError], made: TypedRegistration) -> list[RegistrationFault]:
    """The faults, each beside the nearest field."""
    return [RegistrationFault(one.pointer, one.message, _place(one, made)) for one in errors]


def _place(error: FieldError, made: TypedRegistration) -> str | None:
    around = [where for where in made.places if is_within(error.pointer, where)]
    return made.places[max(around, key=len)] if around else None


def _facts(column: Column) -> str:
    """What its first rows hold; values themselves are not quoted."""
    kind = "numbers" if column.numeric else "texts"
    distinct = len(column.distinct)
    many = f"more than {distinct}" if column.many else str(distinct)
    gaps = f", {column.missing} empty" if column.missing else ""
    return f"{kind}, {many} different{gaps}"
