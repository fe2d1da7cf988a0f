"""The documents of specs that leave columns and words to the registration they name."""

from typing import Any

from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import federation_id_of, with_registration
from models.identifiers import is_id
from models.repositories import FederationRepository


def parse_inherited(resources: Resources, caller: Caller, value: Any) -> ExperimentSpec:
    """The spec in a decoded value, completed by the registration of the federation that it names
    by `id`. Raises InvalidInputError naming the fields."""
    federation_id = federation_id_of(value)
    if federation_id is None or not is_id(federation_id):
        return parse_spec(value)
    with resources.database.read() as session:
        row = FederationRepository(session, caller.project_id).get(federation_id)
    if row is None or row.registration is None:
        return parse_spec(value)
    return parse_spec(with_registration(value, row.registration))
