"""The form's fields of `privacy`, as the mechanisms' parts of a spec declare them."""

from api.pages.spec_form.field import Field
from api.pages.spec_form.part_fields import part_fields
from fedaudit.spec.privacy import mechanism_parts


def privacy_fields() -> tuple[Field, ...]:
    """Each field once; see `part_fields`."""
    return part_fields(mechanism_parts(), where="/privacy", tag="mechanism")
