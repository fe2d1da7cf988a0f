"""Every source answers what the project asks, and is offered wherever sources are."""

from typing import get_args

import pytest

from api.pages import experiment_form as fields
from fedaudit.federations.load import source_kind
from fedaudit.spec.federation import (
    FederationSpec,
    Femnist,
    FileSpec,
    HospitalCharges,
    Images,
    Rotate,
)
from fedaudit.spec.registration import RegisteredSource
from fedaudit.spec.sources import FileSource
from fedaudit.spec.table import Iid, Table

SOURCES = get_args(get_args(FederationSpec)[0])
TABLE = Table(source="table", path="a.csv", client_key="town", target="income")
MADE = {
    "table": TABLE,
    "hospital-charges": HospitalCharges(source="hospital-charges", path="a.csv"),
    "images": Images(source="images", path="a.npz"),
    "femnist": Femnist(source="femnist", path="a.json"),
}


def _name(source: type) -> str:
    return get_args(source.model_fields["source"].annotation)[0]


def _made(source: type):
    name = _name(source)
    return MADE[name] if name in MADE else source(source=name)


@pytest.mark.parametrize("source", SOURCES, ids=_name)
def test_every_source_has_a_kind(source):
    made = _made(source)
    assert source_kind(made).load
    if isinstance(made, FileSource):
        assert made.path in made.traits.files


def test_what_is_kept_in_files_can_be_registered_and_the_rest_is_offered_by_the_form():
    kept = {_name(one) for one in get_args(FileSpec)}
    assert kept == {_name(one) for one in SOURCES if issubclass(one, FileSource)}
    assert kept == {_name(one) for one in get_args(get_args(RegisteredSource)[0])}
    offered = {name for name, _ in fields.SYNTHETIC}
    assert offered == {_name(one) for one in SOURCES} - kept == set(fields.SUGGESTED_GROUPS)


def test_whether_the_seed_draws_the_data():
    dealt = {"client_key": None, "partition": Iid(method="iid", clients=3)}
    turned = {"rotate": Rotate(probability=0.5)}
    cases = {
        True: [
            TABLE.model_copy(update=dealt),
            TABLE.model_copy(update={"standardise": "global"}),
            TABLE.model_copy(update={"standardise": "client", "validation_unit": "record"}),
            MADE["images"].model_copy(update=turned),
            MADE["femnist"].model_copy(update=turned),
            *(_made(one) for one in SOURCES if not issubclass(one, FileSource)),
        ],
        False: [*MADE.values(), TABLE.model_copy(update={"standardise": "client"})],
    }
    for draws, sources in cases.items():
        assert [one.traits.draws_data for one in sources] == [draws] * len(sources)


def test_a_second_file_counts_for_what_is_read():
    charges = MADE["hospital-charges"].model_copy(update={"zip_table": "zips.csv"})
    assert charges.traits.files == ("a.csv", "zips.csv")
    uploaded = TABLE.model_copy(update={"path": None, "id": "1" * 36})
    assert uploaded.traits.files == ()
