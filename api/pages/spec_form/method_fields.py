"""The form's fields of `training.method`, as the methods' parts of a spec declare them."""

from api.pages.spec_form.field import Field
from api.pages.spec_form.part_fields import part_fields
from fedaudit.spec.training import DEFAULT_METHOD, method_parts

METHOD = "/training/method/kind"
_WORDS = {
    "hypotheses": "hypotheses: clients choose among k models",
    "fine-tuning": "fine-tuning: of these, each client makes its own",
    "ditto": "ditto: a common model, and each client's own near it",
    "q-ffl": "q-ffl: large losses count for more",
    "local-only": "local-only: nothing is sent",
}


def method_fields() -> tuple[Field, ...]:
    """The choice, and each field once; see `part_fields`."""
    fields = part_fields(method_parts(), where="/training/method", tag="kind")
    names = [one for field in method_parts() for one in field.names()]
    choice = Field(
        METHOD,
        "Method",
        "choice",
        DEFAULT_METHOD.kind,
        "Models of their own are scored on rows that they were not made from: for these choose "
        "how held-out rows are split, under Data.",
        tuple((name, _WORDS.get(name, name)) for name in names),
    )
    return (choice, *fields)
