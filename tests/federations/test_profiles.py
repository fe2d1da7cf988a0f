"""Profiles: what registered files give and refuse as loading does, and what is hidden in them."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.federations import federation as federation_module
from fedaudit.federations import groups
from fedaudit.federations.load import RegisteredData, load_federation
from fedaudit.federations.profiles.profile import beside_earlier, cuts_of, profile
from fedaudit.federations.reading.source_files import Files
from fedaudit.federations.table import table_federation
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.fairness import Groups
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import parse_registration
from tests.federations.conftest import (
    CLASSIFIER,
    Load,
    profile_in,
    refused,
    registration,
    spec_value,
)
from tests.federations.image_files import arrays, npz

GOOD = "hospital,x,cost\na,1,2\nb,3,4\nb,5,6\n"
COLOURS = {"name": "colour", "kind": "categorical", "categories": ["red", "blue"]}
AGREED = ("rows", "clients", "rows_per_client", "features", "target", "classes", "class_balance",
          "attributes", "warnings")  # fmt: skip
FAIRNESS: dict[str, Any] = {"sensitive": ["sex", "age"], "edges": {"age": [40, 60]}}


def people(rng: random.Random, *, rows: int, numeric: bool) -> list[list[str]]:
    """Rows of hospital, x, colour, sex, age, cost."""
    return [
        [
            rng.choice(["a", "b ", "c", " d"]),
            rng.choice(["1", "-2.5", "1e3", " 4"]),
            rng.choice(["red", "blue", ""]),
            rng.choice(["F", "M", "X", ""]) if rng.random() < 0.9 else "Y",
            rng.choice(["20", "45", "60", ""]),
            f"{rng.random():.6f}" if numeric else rng.choice(["yes", "no"]),
        ]
        for _ in range(rows)
    ]


def written(
    folder: Path, rows: list[list[str]], head: str = "hospital,x,colour,sex,age,cost"
) -> None:
    (folder / "data.csv").write_text("\n".join([head, *map(",".join, rows), ""]))


def both(
    folder: Path, federation: dict[str, Any], fairness: dict[str, Any], *, numeric: bool
) -> tuple[Any, Any]:
    """What profiling gives or refuses, and what loading does."""
    parsed = parse_registration(registration(federation, fairness))
    changes = {f"federation.{name}": change for name, change in federation.items()}
    spec = parse_spec(
        spec_value({**({} if numeric else CLASSIFIER), **changes, "fairness": fairness})
    )
    found: list[Any] = []
    for attempt in (
        RegisteredData(parsed, Files(folder)).profile,
        lambda: profile(load_federation(spec, sources_dir=folder), parsed.fairness),
    ):
        try:
            figures = attempt()
        except InvalidInputError as error:
            found.append([(fault.pointer, fault.message) for fault in error.errors])
        else:
            found.append({name: figures[name] for name in AGREED})
    return found[0], found[1]


@pytest.mark.parametrize("numeric", [True, False])
def test_profiles_agree_with_loading(sources, numeric):
    rng = random.Random(11)
    for minimum in (1, 3, 30):
        written(sources, people(rng, rows=120, numeric=numeric))
        rule = {"op": "ge", "value": 0.4} if numeric else {"op": "in", "value": ["no"]}
        fairness = {**FAIRNESS, "minimum_group_size": minimum, "favourable": rule}
        for missing in ({"missing": "drop-row"}, {"missing": "constant", "fill": "red"}):
            federation = {"features": ["x", {**COLOURS, **missing}]}
            profiled, loaded = both(sources, federation, fairness, numeric=numeric)
            assert isinstance(profiled, dict)
            assert profiled == loaded


WRONG: list[tuple[int, str, str]] = [
    (0, "", "row 8 of column 'hospital' is empty"),
    (0, "x" * 201, "row 8 of column 'hospital' has control characters or more than 200"),
    *((1, cell, "row 8 of column 'x' is empty") for cell in ("", "   ")),
    *(
        (1, cell, "row 8 of column 'x' is not a number")
        for cell in ("seven", "1 000", "0x10", "1_0")
    ),
    *((1, cell, "row 8 of column 'x' is not finite") for cell in ("NaN", "-inf", "1e999")),
    *(
        (1, cell, "row 8 of column 'x' is a number past 64 bits")
        for cell in ("1e40", "99999999999999999999", "-9223372036854775808")
    ),
    (2, "green", "row 8 of column 'colour' is not one of the 2 declared categories"),
    (3, "\x01", "row 8 of column 'sex' has control characters"),
    (4, "old", "row 8 of column 'age' is not a number"),
    (5, "", "row 8 of column 'cost' is empty"),
    (5, "0x10", "row 8 of column 'cost' is not a number"),
]


@pytest.mark.parametrize(("column", "cell", "says"), WRONG)
def test_a_wrong_cell_is_named_by_row_and_column_as_in_loading(sources, column, cell, says):
    rows = people(random.Random(2), rows=20, numeric=True)
    rows[2][2] = ""  # left out, and counted in row numbers all the same
    rows[7] = ["a", "1", "red", "F", "20", "0.5"]
    rows[7][column] = cell
    written(sources, rows)
    federation = {"features": ["x", {**COLOURS, "missing": "drop-row"}]}
    profiled, loaded = both(sources, federation, FAIRNESS | RULE, numeric=True)
    assert says in profiled[0][1]
    assert profiled == loaded
    hidden = cell.strip()
    assert hidden not in profiled[0][1] or len(hidden) < 2, "cells are confidential"


RULE = {"favourable": {"op": "ge", "value": 0.5}}

FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n\n", "has no rows"),
    "header without an end": (b"hospital,x,cost", "has no rows"),
    "header only": (b"hospital,x,cost\n", "header but no rows"),
    "one column": (b"hospital\na\nb\n", "single column"),
    "vertical bars": (b"hospital|x|cost\na|1|2\nb|3|4\n", "by commas, semicolons or tabs"),
    "twice": (b"hospital,x,x,cost\na,1,1,2\n", "twice in its first line: 'x'"),
    "twice but for blanks": (b"hospital,x, x,cost\na,1,1,2\n", "'x'"),
    "a column without a name": (b"hospital,,cost\na,1,2\nb,3,4\n", "column 2"),
    "latin header": (b"h\xf4pital,x,cost\na,1,2\n", "not in UTF-8"),
    "utf-16": (GOOD.encode("utf-16"), "not in UTF-8"),
    "binary": (bytes(range(256)) * 9, "binary"),
    "nul": (b"hospital,x,cost\na\x00b,1,2\nb,3,4\n", "binary"),
    "image": (b"\x89PNG\r\n\x1a\n\xff\xd8\xff" * 40, "UTF-8"),
    "empty gzip": (gzip.compress(b""), "is empty"),
}


@pytest.mark.parametrize(("data", "says"), FILES.values(), ids=FILES)
def test_files_that_are_no_tables(sources: Path, data: bytes, says: str) -> None:
    (sources / "data.csv").write_bytes(data)
    profiled, loaded = both(sources, {}, {}, numeric=True)
    [(pointer, message)] = profiled
    assert pointer == "/federation/path"
    assert says in message
    assert "data.csv" in message
    assert profiled == loaded


def test_limits_on_what_is_counted(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = people(random.Random(6), rows=60, numeric=True)
    for position, row in enumerate(rows):
        row[0] = str(position // 2)
        row[5] = "high" if position % 7 else str(position)
    written(sources, rows)
    names = registration({"features": ["x"]}, {"sensitive": ["sex"]})
    for module, limit, value, pointer, *said in (
        (table_federation, "MAX_CLASSES", 5, "/federation/target", "row 2 of column 'cost' is not"),
        (table_federation, "MAX_CLIENTS", 20, "/federation/client_key", "30 clients, and 20 are"),
        (groups, "MAX_GROUPS", 2, "/fairness/sensitive/0", "and 2 groups are allowed"),
        (
            *(federation_module, "_OF_A_ROW", 2**27, "/federation/features"),
            "FEDAUDIT_MAX_DATA_MEMORY_BYTES",
            "60 or more rows of 1 features and 1 sensitive attributes",
            "7.50 GiB of memory in a run, and 4.00 GiB are allowed",
        ),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, value)
            message = refused(sources, names)[pointer]
        assert [words for words in said if words not in message] == []


def test_empty_cells_are_counted_by_column(sources: Path) -> None:
    rows = people(random.Random(8), rows=50, numeric=True)
    gaps = {
        name: sum(not row[place].strip() for row in rows)
        for name, place in (("colour", 2), ("sex", 3))
    }
    written(sources, rows)
    fill = {**COLOURS, "missing": "constant", "fill": "blue"}
    value = registration({"features": ["x", fill]}, {"sensitive": ["sex"]})
    assert profile_in(sources, value)["missing"] == gaps


def test_clients_that_are_dealt_out(sources: Path) -> None:
    written(sources, people(random.Random(9), rows=50, numeric=True))
    names = {"client_key": None, "features": ["x"], "drop": ["hospital"]}
    iid = registration({**names, "partition": {"method": "iid", "clients": 8}})
    figures = profile_in(sources, iid)
    assert figures["clients"] == 8
    assert figures["rows_per_client"] == {"minimum": 6, "median": 6.0, "maximum": 7}

    uneven = {"method": "dirichlet", "clients": 8, "alpha": 1.0}
    figures = profile_in(sources, registration({**names, "partition": uneven}))
    assert figures["rows_per_client"] == dict.fromkeys(("minimum", "median", "maximum"))
    assert "seed" in figures["reasons"]["rows_per_client"]

    many = registration({**names, "partition": {"method": "iid", "clients": 51}})
    assert list(refused(sources, many)) == ["/federation/partition/clients"]

    column = {"method": "column", "column": "hospital"}
    figures = profile_in(sources, registration({**names, "drop": [], "partition": column}))
    assert figures["clients"] == 4


def test_values_of_measurements_are_not_shown(sources: Path) -> None:
    rows = [["ab"[row % 2], "1", "mf"[row % 3 % 2], str(1000 + row)] for row in range(80)]
    written(sources, rows, "hospital,x,sex,cost")
    features = {"features": ["x"]}
    figures = profile_in(sources, registration(features))
    assert (figures["classes"], figures["class_balance"]) == ([], None)
    assert figures["reasons"]["class_balance"] == "the target is a number"
    assert "1001" not in str(figures)

    written(sources, [*rows, ["a", "1", "m", "n/a"]], "hospital,x,sex,cost")
    figures = profile_in(sources, registration(features))
    assert (figures["classes"], figures["class_balance"]) == ([], None)
    assert "81 classes" in figures["reasons"]["classes"]
    assert "1001" not in str(figures)
    rule = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 1040}}
    faults = refused(sources, registration(features, rule))
    assert list(faults) == ["/federation/target"]
    assert "row 81 of column 'cost' is not a number" in faults["/federation/target"]


def test_data_that_changed_and_progress(sources: Path) -> None:
    (sources / "data.csv").write_text(GOOD)
    parsed = parse_registration(registration())
    calls: list[None] = []
    RegisteredData(parsed, Files(sources), lambda: calls.append(None)).profile()
    assert calls
    with pytest.raises(InvalidInputError, match="not what it was when it was registered"):
        RegisteredData(parsed, Files(sources)).profile("0" * 64)


def test_images_and_hospital_charges_are_loaded(sources: Path) -> None:
    data = arrays(120, x=np.zeros((120, 28, 28), dtype=np.uint8), y=np.arange(120) % 3)
    (sources / "data.npz").write_bytes(npz(**data))
    source: dict[str, Any] = {"source": "images", "path": "data.npz"}
    value: dict[str, Any] = {"name": "marks", "federation": source}
    figures = profile_in(sources, value)
    assert (figures["rows"], figures["clients"]) == (120, 3)
    assert figures["class_balance"] == {"0": 40, "1": 40, "2": 40}
    assert not any("turned" in note for note in figures["notes"])
    value["federation"] = {**source, "rotate": {"probability": 0.5}}
    assert any("those of seed 0" in note for note in profile_in(sources, value)["notes"])

    header = "provider_id,state,service_index,longitude,latitude,average_total_payments"
    lines = [f"{row % 40},{['AK', 'TX'][row % 2]},{row % 4},1,2,{row}" for row in range(160)]
    (sources / "charges.csv").write_text("\n".join([header, *lines]) + "\n")
    source = {"source": "hospital-charges", "path": "charges.csv", "client_key": "provider_id"}
    fairness = {"sensitive": ["state"], "favourable": {"op": "le", "value": 79.5}}
    figures = profile_in(sources, {"name": "c", "federation": source, "fairness": fairness})
    assert figures["attributes"]["state"]["groups"] == {"AK": 80, "TX": 80}
    assert figures["attributes"]["state"]["base_rates"] == {"AK": 0.5, "TX": 0.5}
    (sources / "charges.csv").write_text("\n".join([header, *lines, "9,AK,7,1,2,3"]) + "\n")
    faults = refused(sources, {"name": "c", "federation": source})
    assert "row 161 of column 'service_index'" in faults["/federation/path"]


# -- what is hidden in profiles, and what further ones may show -----------------------------------


def cut_profile(rows=300):
    sizes, rates = {"<83": 153, ">=83": 147}, {"<83": 0.5, ">=83": 0.25}
    of_age = {"of": "record", "groups": sizes, "missing": 0, "base_rates": rates, "reasons": {}}
    return {"rows": rows, "attributes": {"age": of_age}}


def cut_at(*edges, value=None):
    rule = None if value is None else {"op": "ge", "value": value}
    return Groups(sensitive=["age"], edges={"age": list(edges)} if edges else {}, favourable=rule)


def test_the_first_cut_is_shown_and_remembered_beside_others():
    asked = cuts_of(cut_profile(), cut_at(83))
    found, cuts = beside_earlier(cut_profile(), asked, {})
    assert found == cut_profile()
    assert cuts == {"age": {"rows": 300, "edges": [83.0], "favourable": None}}
    assert beside_earlier(cut_profile(), asked, cuts) == (found, cuts)
    sex = {"sex": {"rows": 300}}
    _, both = beside_earlier(cut_profile(), asked, sex)
    assert both == cuts | sex


def test_rates_are_shown_beside_a_profile_that_had_no_rule_for_them():
    none, shown = cut_profile(), cut_profile()
    none["attributes"]["age"] |= {"base_rates": {}, "reasons": {"base_rates": "no rule"}}
    first = beside_earlier(none, cuts_of(none, cut_at(83)), {})[1]
    found, cuts = beside_earlier(shown, cuts_of(shown, cut_at(83, value=4)), first)
    assert found == shown
    # The first rule that was shown stays the only one, and a profile without rates is none.
    assert beside_earlier(none, cuts_of(none, cut_at(83)), cuts) == (none, cuts)
    other, after = beside_earlier(shown, cuts_of(shown, cut_at(83, value=5)), cuts)
    assert (other["attributes"]["age"]["missing"], after) == (None, cuts)
    for asked in (cut_at(84, value=4), cut_at(value=4)):
        other, after = beside_earlier(shown, cuts_of(shown, asked), first)
        assert (other["attributes"]["age"]["missing"], after) == (None, first)


def test_other_edges_rules_and_rows_are_not():
    first = cuts_of(cut_profile(), cut_at(83))
    for asked, found in (
        (cut_at(84), cut_profile()),
        (cut_at(), cut_profile()),
        (cut_at(83, value=4), cut_profile()),
        (cut_at(83), cut_profile(rows=299)),
    ):
        beside, cuts = beside_earlier(found, cuts_of(found, asked), first)
        assert cuts == first, "what was not shown is not remembered"
        age = beside["attributes"]["age"]
        assert age["groups"]["<83"] is None
        assert set(age["reasons"]) == {"groups", "missing", "base_rates"}
        assert age["missing"] is None


def test_a_rule_by_another_name_is_the_same_rule():
    rule = {"op": "ge", "value": 3}
    plain, named = (
        Groups(sensitive=["age"], edges={"age": [83]}, favourable=one)
        for one in (rule, {**rule, "label": "granted"})
    )
    assert cuts_of(cut_profile(), named) == cuts_of(cut_profile(), plain)


DATA = "hospital,x,sex,cost\na,1,F,7\na,2,M,8\nb,3,F,6\nb,4,,7\nb,5,F,0\nc,6,M,1\n"
BY_SEX = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 7}, "minimum_group_size": 1}
OF_SEX = Groups.model_validate(BY_SEX)


def test_sizes_and_names_as_json(load: Load) -> None:
    figures = profile(load({"fairness": BY_SEX}, data=DATA), OF_SEX)
    assert json.loads(json.dumps(figures)) == figures
    assert figures == {
        "rows": 6,
        "clients": 3,
        "rows_per_client": {"minimum": 1, "median": 2.0, "maximum": 3},
        "features": ["x"],
        "target": "cost",
        "classes": [],
        "class_balance": None,
        "missing": {},
        "attributes": {
            "sex": {
                "of": "record",
                "groups": {"F": 3, "M": 2},
                "missing": 1,
                "base_rates": {"F": 1 / 3, "M": 0.5},
                "reasons": {},
            }
        },
        "warnings": [],
        "notes": ["rows without a value of 'sex', in no group: 1"],
        "reasons": {"class_balance": "the target is a number"},
    }


def profiled(load: Load, data: str, fairness: dict[str, Any]) -> dict[str, Any]:
    """Of data whose target is a class."""
    federation = load({**CLASSIFIER, "fairness": fairness}, data=data)
    return profile(federation, Groups.model_validate(fairness))


def test_classes_and_attributes_of_clients(load: Load) -> None:
    data = "hospital,x,sex,cost\na,1,F,y\na,2,,n\nb,3,M,y\nb,4,M,y\nb,5,M,n\n"
    figures = profiled(load, data, {"sensitive": ["sex"], "minimum_group_size": 1})
    assert figures["class_balance"] == {"n": 2, "y": 3}
    assert figures["attributes"]["sex"]["of"] == "client"
    assert figures["attributes"]["sex"]["base_rates"] == {"F": 1.0, "M": 2 / 3}


def figures_of(load: Load, groups: list[str], favoured: int | None = None) -> dict[str, Any]:
    """The profile of rows of these groups: every second one favoured, or so many first ones."""
    rows = "".join(
        f"{'ab'[row % 2]},1,{group},{row % 2 if favoured is None else int(row < favoured)}\n"
        for row, group in enumerate(groups)
    )
    return profiled(load, "hospital,x,sex,cost\n" + rows, {"sensitive": ["sex"]})


def test_small_groups_are_hidden_together_with_what_would_give_them_away(load: Load) -> None:
    figures = figures_of(load, ["F"] * 40 + ["M"] * 35 + ["X"] * 3 + ["Y"] * 50)
    # 128 rows less those of F and Y leave 38 for M and X together.
    of_sex = figures["attributes"]["sex"]
    assert of_sex["groups"] == {"F": 40, "M": None, "X": None, "Y": 50}
    assert of_sex["base_rates"] == {"F": 0.5, "M": None, "X": None, "Y": 0.5}
    assert set(of_sex["reasons"]) == {"groups", "base_rates"}
    (warning,) = figures["warnings"]
    assert warning["pointer"] == "/fairness/sensitive/0"
    assert "'sex' has groups of fewer than 30 rows: 'X'" in warning["message"]
    assert "nor those of 'M' that protect them; join them" in warning["message"]


@pytest.mark.parametrize(
    ("groups", "favoured", "shown", "rated", "balance"),
    [
        # The total would show that X and Z have one row each, and what came of them.
        (["F"] * 60 + ["M"] * 40 + ["X", "Z"], None, {"F": 60}, ["F"], 51),
        (["F"] * 60 + ["M"] * 40 + ["X", "Z"] * 15, None, {"F": 60, "M": 40}, ["F", "M"], 65),
        # The sizes of the classes, less what the rates add up to, would show the outcomes of rows
        # without a value.
        (["F"] * 60 + ["M"] * 40 + [""] * 2, None, {"F": 60, "M": 40}, ["F"], 51),
        # Rates would show the size of a small class.
        (["F", "M"] * 100, 7, {"F": 100, "M": 100}, [], None),
    ],
)
def test_what_is_shown_does_not_give_away_what_is_hidden(
    load: Load,
    groups: list[str],
    favoured: int | None,
    shown: dict[str, int],
    rated: list[str],
    balance: int | None,
) -> None:
    figures = figures_of(load, groups, favoured)
    found = figures["attributes"]["sex"]
    assert {name: size for name, size in found["groups"].items() if size is not None} == shown
    assert [name for name, rate in found["base_rates"].items() if rate is not None] == rated
    assert figures["class_balance"] == {"0": balance, "1": balance}


def test_without_a_rule_there_are_reasons_and_no_rates(load: Load) -> None:
    federation = load({"fairness": BY_SEX}, data=DATA)
    no_rule = OF_SEX.model_copy(update={"favourable": None})
    figures = profile(federation, no_rule)["attributes"]["sex"]
    assert figures["base_rates"] == {"F": None, "M": None}
    assert "is a number" in figures["reasons"]["base_rates"]

    wrong = Groups.model_validate({**BY_SEX, "favourable": {"op": "in", "value": ["7"]}})
    with pytest.raises(InvalidInputError):
        profile(federation, wrong)


def test_classes_without_a_favourable_one_are_warned_of_and_none_is_quoted(tmp_path: Path) -> None:
    rows = [[f"h{row % 9}", "1", "FM"[row % 2], f"name{row // 2}"] for row in range(400)]
    written(tmp_path, rows, "hospital,x,sex,cost")
    found = profile_in(tmp_path, registration({"features": ["x"]}, {"sensitive": ["sex"]}))
    [warning] = found["warnings"]
    assert warning["pointer"] == "/fairness/favourable"
    assert "experiments are refused until then" in warning["message"]
    assert "name1" not in repr(found)
