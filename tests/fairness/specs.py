"""Specs that measure fairness in their own ways."""

from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from tests.spec.documents import HOSPITAL

GROUPS = {
    "sex": ("F", "M"),
    "race": ("a", "b", "c"),
    "sex_race": tuple(f"{sex} {race}" for sex in "FM" for race in "abc"),
}


def spec(**fairness: object) -> ExperimentSpec:
    """By sex and race, of numbers above 7000 or as told."""
    favourable = {"op": "ge", "value": 7000}
    named = {"sensitive": ["sex", "race"], "favourable": favourable, **fairness}
    return parse_spec({**HOSPITAL, "fairness": named})
