"""The hospital data in the forms in which it is found."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.federations.federation import Federation
from fedaudit.federations.hospital import with_money
from fedaudit.federations.reading.source_files import Files, open_path
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.spec.errors import InvalidInputError
from tests.federations.conftest import Load

# As CMS published it for FY2011: names with blanks around them, codes within the definition,
# dollars with thousands separators.
CMS = """"DRG Definition","Provider Id","Provider Name","Provider Street Address","Provider City","Provider State","Provider Zip Code","Hospital Referral Region Description"," Total Discharges "," Average Covered Charges "," Average Total Payments ","Average Medicare Payments"
"194 - SIMPLE PNEUMONIA & PLEURISY W CC",10001,"SOUTHEAST ALABAMA, MEDICAL","1108 ROSS CLARK","DOTHAN","AL",36301,"AL - Dothan",91,"$32,963.07 ","$5,777.24 ","$4,763.73"
"690 - KIDNEY & URINARY TRACT INFECTIONS W/O MCC",10001,"SOUTHEAST ALABAMA, MEDICAL","1108 ROSS CLARK","DOTHAN","AL",36301,"AL - Dothan",14,"$15,131.85 ","$787.5","$4,976.71"
"194 - SIMPLE PNEUMONIA & PLEURISY W CC",20001,"ALASKA","3200","ANCHORAGE","AK",99508,"AK - Anchorage",20,"$1.00","$1,234,567.89","$1.00"
"039 - EXTRACRANIAL PROCEDURES W/O CC/MCC",20001,"ALASKA","3200","ANCHORAGE","AK",99508,"AK - Anchorage",20,"$1.00","$8,402","$1.00"
"690 - KIDNEY & URINARY TRACT INFECTIONS W/O MCC",220001,"BOSTON","1","BOSTON","MA",2115,"MA - Boston",20,"$1.00","$6,000.00","$1.00"
"690 - KIDNEY & URINARY TRACT INFECTIONS W/O MCC",400001,"NOWHERE","1","NOWHERE","PR",926,"PR",20,"$1.00","$5,000.00","$1.00"
"""  # noqa: E501

ZIP_TABLE = """zip,city,state,longitude,latitude
36301,Dothan,AL,-85.3718,31.1481
99508,Anchorage,AK,-149.8104,61.2039
02115,Boston,MA,-71.0926,42.3427
00926,San Juan,PR,0.0,0.0
"""

SOURCE: dict[str, Any] = {
    "source": "hospital-charges",
    "path": "data.csv",
    "validation_fraction": 0.5,
    "zip_table": "zips.csv",
    "conditions": [194, 690],
}
DERIVED = """provider_id,service_index,zip,longitude,latitude,average_total_payments,state
10001,0,36301,-85.3718,31.1481,5833,AL
10001,1,36301,-85.3718,31.1481,4386,AL
20001,3,99508,-149.8104,61.2039,8799,AK
30001,2,00501,0,0,8799,NY
"""


@pytest.fixture(autouse=True)
def zip_table(sources: Path) -> Path:
    path = sources / "zips.csv"
    path.write_text(ZIP_TABLE)
    return path


def source(**changes: object) -> dict[str, Any]:
    merged = {**SOURCE, **changes}
    return {"federation": {name: value for name, value in merged.items() if value is not None}}


def rows_of(federation: Federation, client: str) -> list[tuple[list[float], float]]:
    own = federation.own(federation.client_names.index(client))
    features = federation.side_by_side[own].astype(float).round(5).tolist()
    return list(zip(features, federation.raw_target[own].tolist(), strict=True))


def test_the_file_as_cms_publishes_it(load: Load) -> None:
    federation = load(source(), data=CMS)
    assert federation.client_names == ("02115", "36301", "99508")
    assert federation.feature_names == ("service_index", "longitude", "latitude")
    assert federation.target_name == "average_total_payments"
    assert rows_of(federation, "36301") == [
        ([0, -0.85372, 3.11481], 5777.24),
        ([1, -0.85372, 3.11481], 787.5),
    ]
    assert rows_of(federation, "99508") == [([0, -1.4981, 6.12039], 1234567.89)]
    assert rows_of(federation, "02115") == [([1, -0.71093, 4.23427], 6000.0)]
    assert federation.notes == ("rows without coordinates, left out: 1",)
    assert federation.target_scale == 10_000


def test_clients_may_be_providers_scales_others_and_states_attributes(load: Load) -> None:
    fairness = {"sensitive": ["region", "state"], "favourable": {"op": "le", "value": 7000}}
    changes = source(client_key="provider_id", scale={"latitude": 2})
    federation = load({**changes, "fairness": fairness}, data=CMS)
    assert federation.client_names == ("10001", "20001", "220001")
    assert rows_of(federation, "20001") == [([0, -149.81039, 30.60195], 1234567.89)]
    assert federation.attribute("state").values == ("AK", "AL", "MA")
    assert federation.attribute("region").values == ("AK - Anchorage", "AL - Dothan", "MA - Boston")


@pytest.mark.parametrize(
    "header",
    [
        "Rndrng_Prvdr_CCN,Rndrng_Prvdr_Zip5,Rndrng_Prvdr_State_Abrvtn,DRG_Cd,DRG_Desc,Avg_Tot_Pymt_Amt",
        "provider_id,zip,state,drg_code,drg_definition,avg_total_payments",
        "Provider CCN,Provider Zip Code,Provider State,DRG Definition,Text,Average Total Payments",
        "PROVIDER ID,ZIP,STATE,DRG CODE,DRG_DEFINITION,AVG. TOTAL PAYMENTS",
    ],
)
def test_later_spellings_and_plain_copies(load: Load, header: str) -> None:
    rows = "10001,36301,AL,194,SIMPLE PNEUMONIA,5833\n20001,99508,AK,039,EXTRACRANIAL,8402\n"
    federation = load(source(conditions=[194, 39]), data=f"{header}\n{rows}")
    assert rows_of(federation, "36301") == [([0, -0.85372, 3.11481], 5833)]
    assert rows_of(federation, "99508") == [([1, -1.4981, 6.12039], 8402)]


def test_the_derived_file_has_its_own_coordinates(load: Load) -> None:
    federation = load(source(zip_table=None, conditions=[392, 194, 690, 292]), data=DERIVED)
    assert federation.client_names == ("36301", "99508")
    assert [row[0][0] for row in rows_of(federation, "36301")] == [1, 2]


def test_a_zip_table_goes_before_the_files_own_coordinates(load: Load, zip_table: Path) -> None:
    zip_table.write_text("postal code,lon,lat\n36301,-50,20\n99508-1234,10,40\n")
    federation = load(source(conditions=[194, 392]), data=DERIVED)
    assert rows_of(federation, "36301")[0][0] == [0, -0.5, 2]
    assert rows_of(federation, "99508")[0][0] == [1, 0.1, 4]


BY_PROVIDER = source(client_key="provider_id")
NO_ZIPS = source(zip_table=None)
BY_RACE = {**source(), "fairness": {"sensitive": ["race"]}}


@pytest.mark.parametrize(
    ("changes", "data", "pointer", "says"),
    [
        (NO_ZIPS, CMS, "zip_table", "has no coordinates"),
        (source(zip_table="other.csv"), CMS, "zip_table", "no file 'other.csv'"),
        (source(zip_table="data.csv"), CMS, "zip_table", "lacks the columns"),
        (source(conditions=[194, 690, 871]), CMS, "conditions/2", "DRG 871"),
        (source(conditions=[871]), DERIVED, "conditions/0", "DRG 871"),
        (source(scale={"payments": 2}), CMS, "scale/payments", "neither a feature"),
        (BY_RACE, CMS, "/fairness/sensitive/0", "they have 'state', 'region'"),
        (source(), "a,b\n1,2\n", "path", "has no column for"),
        (source(), CMS.replace("$787.5", "$78,7.5"), "path", "row 2 of column"),
        (source(), CMS.replace("2115", "2115X"), "path", "row 5 of column"),
        (source(), CMS.replace("039 -", "EXTRA -"), "path", "row 4 of column"),
        (NO_ZIPS, DERIVED.replace("3,99508", "4,99508"), "path", "row 3"),
        (BY_PROVIDER, CMS.replace("20001,", ",", 1), "client_key", "row 3"),
        (BY_PROVIDER, CMS.replace("Provider Id", "Id"), "client_key", "provider_id"),
        (source(standardise="client"), CMS, "standardise", "use `ranges`, not `client`"),
    ],
)
def test_files_that_do_not_fit(refuse, changes, data, pointer, says):
    where = pointer if pointer.startswith("/") else f"/federation/{pointer}"
    assert says in refuse(changes, data=data)[where]


def test_zip_codes_need_no_providers_and_their_coordinates(load, refuse, zip_table) -> None:
    assert load(source(), data=CMS.replace("Provider Id", "Id")).clients == 3
    zip_table.write_text("zip,longitude,latitude\n10000,1,2\n")
    assert "none of the rows" in refuse(source(), data=CMS)["/federation/zip_table"]


def amounts(cells: list[str]) -> list[float]:
    column = pa.chunked_array([pa.array(cells)])
    here = Path(__file__)  # any file will do: rows only say where they come from
    with open_path(here.name, files=Files(here.parent), pointer="/p") as source:
        rows = TableRows(source, {"c": column}, np.arange(1, len(cells) + 1))
        return with_money(rows, "c", "/p").numbers("c", "/p").tolist()


@given(st.integers(0, 10**12), st.booleans(), st.booleans(), st.sampled_from(["", " ", "\t"]))
def test_money_is_read_as_it_is_written(cents, dollar, separators, blank):
    amount = cents / 100
    text = f"{amount:,.2f}" if separators else f"{amount:.2f}"
    assert amounts([blank + "$" * dollar + text + blank]) == [float(f"{amount:.2f}")]


@pytest.mark.parametrize(
    "cell", ["", "$", "1,00", "$1,0000", "1,234,56", "$$5", "5$", "-", "1.2.3"]
)
def test_what_is_no_amount_is_refused(cell: str) -> None:
    with pytest.raises(InvalidInputError, match="row 2 of column 'c'"):
        amounts(["$1.00", cell])


def test_by_public_ranges_features_are_of_order_one(load: Load) -> None:
    federation = load(source(standardise="ranges"), data=CMS)
    assert rows_of(federation, "36301")[1][0] == [2, 0.64188, -0.90029]
    [anchorage] = rows_of(federation, "99508")
    assert anchorage[0] == [-2, -2, 2], "beyond the ends of the contiguous states"
