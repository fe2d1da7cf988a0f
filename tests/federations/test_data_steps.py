"""What loading computes from one unit's data and shows of another's: all of it is in the table of
docs/guarantees.md, and nothing else moves."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.attacks.membership.shadow_design import trained_rows
from fedaudit.attacks.replay.neighbours import moved_by, units
from fedaudit.federations.load import load_federation
from fedaudit.federations.table import table_federation
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.federation import (
    Femnist,
    HospitalCharges,
    Images,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.parse import parse_admitted
from fedaudit.spec.sources import moves_others
from fedaudit.spec.table import Feature, Table
from fedaudit.training.base.cell import Cell
from tests.federations.image_files import leaf, zipped
from tests.spec.documents import BY_RECORD, gaussian

PAGE = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## What is computed from the data")[2].partition("## ")[0]
Option = dict[str, Any]
SOURCE: Option = {
    "source": "table",
    "path": "rows.csv",
    "client_key": "town",
    "target": "flag",
    "features": ["a", "b"],
}
GAP = {"name": "b", "missing": "drop-row"}
FILL = {"name": "b", "missing": "constant", "fill": 3}
LETTER = {"name": "c", "kind": "categorical", "categories": ["u", "v", "w"]}
BY_CLIENT: Option = gaussian("local", 1.0, delta=1e-3)
UNITS: list[Option] = [
    {"privacy": BY_CLIENT},
    {"privacy": BY_CLIENT, "validation_unit": "record"},
    {"privacy": BY_RECORD},
    {"privacy": BY_RECORD, "validation_unit": "record"},
    {"privacy": {**BY_RECORD, "budgets": {"column": "budget"}}, "validation_unit": "record"},
]
HELD_OUT: dict[str, list[Option]] = {
    "validation_fraction": [{}, {"validation_fraction": 0.5}],
    "scoring": [{}, {"scoring": {"method": "split", "fraction": 0.5}}],
}
OPTIONS: dict[str, list[Option]] = {
    "validation_unit": UNITS,
    "client_key": [
        {},
        *(
            {"client_key": None, "partition": how}
            for how in (
                {"method": "iid", "clients": 5},
                {"method": "dirichlet", "clients": 5, "alpha": 5.0},
                {"method": "shards", "clients": 5},
                {"method": "column", "column": "town"},
            )
        ),
    ],
    "target": [{}, {"positive": "1"}, {"target": "y"}],
    "features": [
        {"features": ["a", GAP, LETTER]},
        {"features": ["a", FILL, {**LETTER, "encoding": "ordinal"}]},
        {"features": "all"},
    ],
    "missing_client": [{}, {"missing_client": "drop-row"}],
    "missing_target": [{}, {"missing_target": "drop-row"}],
    "missing_values": [{}, {"missing_values": ["?"]}],
    "join": [{}, {"join": {"race": {"columns": {"r1": "one", "r2": "two"}, "none": "none"}}}],
    "scale": [
        {},
        {"scale": {"*": 10}},
        {"scale": {"a": {"low": -1, "high": 1}}},
        {"scale": {"a": {"mean": 1, "deviation": 2}}},
    ],
    "standardise": [{}, *({"standardise": how} for how in ("client", "global", "ranges"))],
    **HELD_OUT,
}
"""By field of a table: what may be said of it, the fields that go with it beside it."""
SAME_FILE = {
    *("leak_reviewed", "source", "path", "id", "header", "labels", "partition", "positive", "drop")
}
"""Fields that say where the data are and what they are called, and those that go with another."""


def covering(options: dict[str, list[Option]]) -> list[Any]:
    """What is asked by choices of one option for each field, until every pair of options was chosen
    together."""
    found = []
    for chosen in choices(options):
        asked: Option = {}
        for field, place in chosen.items():
            asked |= options[field][place]
        found.append(pytest.param(asked, id=str(chosen)))
    return found


def choices(options: dict[str, list[Option]]) -> Iterator[dict[str, int]]:
    random, fields = np.random.default_rng(1), sorted(options)
    left = {
        (one, i, other, j)
        for one, other in combinations(fields, 2)
        for i in range(len(options[one]))
        for j in range(len(options[other]))
    }

    def covered(chosen: dict[str, int]) -> set[tuple[str, int, str, int]]:
        return {(one, chosen[one], other, chosen[other]) for one, other in combinations(fields, 2)}

    while left:
        one, i, other, j = min(left)
        tried = [
            {field: int(random.integers(len(options[field]))) for field in fields}
            | {one: i, other: j}
            for _ in range(50)
        ]
        best = max(tried, key=lambda chosen: len(covered(chosen) & left))
        left -= covered(best)
        yield best


def a_spec(source: Option, privacy: Option, **fairness: Any) -> ExperimentSpec:
    number = source.get("target") == "y" or source["source"] == "hospital-charges"
    training: Option = {"rounds": 1, "cohort": {"clients": 1}, "local": {"epochs": 1}}
    if privacy is not BY_CLIENT:
        training["cohort"] = {"sampling": "poisson", "rate": 0.5}
        training["local"] = {"steps": 1, "batch_size": 4}
    return parse_admitted(
        {
            "name": "steps",
            "seed": 4,
            "federation": source,
            "model": {"kind": "linear" if number else "logistic"},
            "training": {**training, "loss": "mse" if number else "cross-entropy"},
            "privacy": privacy,
            "fairness": fairness,
        }
    )


def write_rows(place: Path, *, gaps: bool = True) -> None:
    """60 rows of six towns, some of them without town, target or `b`."""
    random = np.random.default_rng(0)
    lines = ["town,flag,y,a,b,c,r1,r2,sex,budget"]
    for row in range(60):
        town, flag = f"t{row % 6}", str(int(random.integers(2)))
        a, y = f"{random.normal():.3f}", f"{random.normal():.3f}"
        b = "" if row % 11 == 7 else str(row % 5)
        if gaps and row % 13 == 5:
            town = ""
        if gaps and row % 17 == 3:
            flag = y = ""
        lines.append(f"{town},{flag},{y},{a},{b},{'uvw'[row % 3]},{row % 2},0,{'FM'[row % 2]},1.5")
    place.write_text("\n".join(lines))


@pytest.mark.parametrize("asked", covering(OPTIONS))
def test_of_a_table_nothing_moves_but_what_is_refused(asked, tmp_path):
    given = dict(asked)
    privacy = given.pop("privacy")
    gaps = "missing_client" in given and "missing_target" in given
    for rule in () if gaps else ("missing_client", "missing_target"):
        given.pop(rule, None)
    if given.get("partition", {}) and given["partition"]["method"] == "dirichlet":
        given.pop("target", None)  # it deals classes
    write_rows(tmp_path / "rows.csv", gaps=gaps)
    sensitive = ["sex", *(["race"] if "join" in given else [])]
    if given["features"] == "all":
        given["drop"] = ["b", "c", "y" if given.get("target", "flag") == "flag" else "flag"]
        if given.get("partition", {"method": "column"})["method"] != "column":
            given["drop"].append("town")
    spec = a_spec({**SOURCE, **given}, privacy, sensitive=sensitive)
    cell = Cell(spec, load_federation(spec, sources_dir=tmp_path))
    statistics = spec.federation.traits.statistics
    by_record = privacy is not BY_CLIENT
    expected = {"features"} if moves_others(statistics, by_record=by_record) else set()
    trained = trained_rows(cell)
    for unit in units(cell):
        moved = set(moved_by(spec, cell.federation, unit, tmp_path, tmp_path / "copies"))
        assert moved == expected if trained[unit.rows].any() else moved <= expected


def write_images(place: Path, *, kind: str = "u1", labels: Any = None) -> None:
    x = np.random.default_rng(0).integers(1, 255, (24, 4, 4)).astype(np.uint8)
    y = np.arange(24) % 3 if labels is None else labels
    writers = np.repeat(np.arange(6), 4)
    np.savez(place, x=x if kind == "u1" else x / 255, y=y, writer=writers)


def assert_nothing_moves(source: str, path: str, asked: Option, folder: Path) -> None:
    given = {"source": source, "path": path, **asked}
    spec = a_spec(given, given.pop("privacy"))
    cell = Cell(spec, load_federation(spec, sources_dir=folder))
    for unit in units(cell):
        assert not moved_by(spec, cell.federation, unit, folder, folder / "copies")


IMAGE_OPTIONS: dict[str, list[Option]] = {
    "validation_unit": UNITS[:4],
    "classes": [{}, {"classes": 5}],
    "rotate": [{}, {"rotate": {"probability": 0.5}}],
    "client_key": [{}],
    **HELD_OUT,
}


@pytest.mark.parametrize("kind", ["u1", "f8", "leaf", "leaf.zip"])
@pytest.mark.parametrize("asked", covering(IMAGE_OPTIONS))
def test_of_images_nothing_moves(kind: str, asked: Option, tmp_path: Path) -> None:
    place, source = tmp_path / "images.npz", "images"
    if kind.startswith("leaf"):
        source = "femnist"
        pixels = np.random.default_rng(0).random((6, 4, 16)).tolist()
        shard = leaf({f"w{place}": (x, [0, 1, 2, 0]) for place, x in enumerate(pixels)})
        place.write_bytes(shard if kind == "leaf" else zipped({"one.json": shard}))
    else:
        write_images(place, kind=kind)
    assert_nothing_moves(source, place.name, asked, tmp_path)


HOSPITAL_OPTIONS: dict[str, list[Option]] = {
    "validation_unit": UNITS[:4],
    "client_key": [{"client_key": "zip"}, {"client_key": "provider_id"}],
    "conditions": [{}, {"conditions": [194, 690]}],
    "zip_table": [{}, {"zip_table": "zips.csv"}],
    "scale": [{}, {"scale": {"longitude": 100, "average_total_payments": 1000}}],
    "standardise": [{}, {"standardise": "ranges"}],
    **HELD_OUT,
}


@pytest.mark.parametrize("asked", covering(HOSPITAL_OPTIONS))
def test_of_hospital_charges_nothing_moves(asked: Option, tmp_path: Path) -> None:
    lines = [
        f"{row % 6},{10000 + row % 6},AL,{drg},{4000 + row},-86.5,33"
        for row, drg in enumerate([194, 690, 292, 392] * 12)
    ]
    head = "provider_id,zip,state,drg_code,average_total_payments,longitude,latitude"
    (tmp_path / "charges.csv").write_text("\n".join([head, *lines]))
    zips = "\n".join(f"{10000 + one},-80,{30 + one}" for one in range(6))
    (tmp_path / "zips.csv").write_text(f"zip,longitude,latitude\n{zips}")
    assert_nothing_moves("hospital-charges", "charges.csv", asked, tmp_path)


DEALT: Option = {"client_key": None, "partition": {"method": "shards", "clients": 5}}


@pytest.mark.parametrize(
    ("source", "cells", "moved"),
    [
        ({}, {"flag": "9"}, {"classes"}),
        ({"positive": "1"}, {"flag": "other"}, set()),
        ({}, {"town": "t9"}, {"client_names", "whose"}),
        (DEALT, {"flag": "other"}, {"whose"}),
        ({**DEALT, "partition": {"method": "iid", "clients": 5}}, {}, {"whose"}),
    ],
)
def test_what_is_taken_as_known_moves(source, cells, moved, tmp_path):
    """The classes, who is a client, and the dealing of rows by their places: the first row has
    other cells, or is gone where there are none."""
    write_rows(tmp_path / "rows.csv", gaps=False)
    spec = a_spec({**SOURCE, **source, "features": ["a"]}, BY_RECORD)

    def loaded() -> Option:
        found = load_federation(spec, sources_dir=tmp_path)
        whose = found.client_of[np.argsort(found.row_numbers)].tolist()
        return {"classes": found.classes, "client_names": found.client_names, "whose": whose}

    before = loaded()
    head, first, *rows = (tmp_path / "rows.csv").read_text().split("\n")
    row = dict(zip(head.split(","), first.split(","), strict=True))
    other = {"flag": str(1 - int(row["flag"]))} if cells.get("flag") == "other" else {}
    changed = [",".join((row | cells | other).values())] if cells else []
    (tmp_path / "rows.csv").write_text("\n".join([head, *changed, *rows]))
    after = loaded()
    assert {name for name in before if before[name] != after[name]} == moved


def test_classes_of_images_are_declared_or_taken_as_known(tmp_path: Path) -> None:
    for given, same in (({}, False), ({"classes": 5}, True)):
        spec = a_spec({"source": "images", "path": "images.npz", **given}, BY_RECORD)
        found = []
        for last in (2, 4):
            write_images(tmp_path / "images.npz", labels=np.array([*np.arange(23) % 3, last]))
            found.append(load_federation(spec, sources_dir=tmp_path).classes)
        assert (found[0] == found[1]) == same
        assert spec.federation.traits.finds_classes != same


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (Table, OPTIONS),
        (Images, IMAGE_OPTIONS),
        (Femnist, IMAGE_OPTIONS),
        (HospitalCharges, HOSPITAL_OPTIONS),
    ],
)
def test_every_option_of_a_source_is_tried_and_in_the_table(source, options):
    """A field that the loader learns is tried here, or is one of those that move nothing."""
    fields = set(source.model_fields) - SAME_FILE
    assert not fields - options.keys()
    parts = {*Feature.model_fields} - {"name"} if source is Table else set()
    assert not {field for field in fields | parts if f"`{field}" not in TABLE}


def test_made_up_data_belong_to_no_one() -> None:
    for source in (SyntheticLinear, SyntheticGroups):
        assert source.model_construct().traits.made_up


def test_a_step_that_is_not_written_down_is_found(tmp_path, monkeypatch):
    """A loader that centres the target by the mean of all rows."""
    pack = table_federation.pack

    def centred(*arguments: Any, target: Any, **options: Any) -> Any:
        return pack(*arguments, target=target - target.mean(), **options)

    monkeypatch.setattr(table_federation, "pack", centred)
    write_rows(tmp_path / "rows.csv", gaps=False)
    spec = a_spec({**SOURCE, "features": ["a"], "target": "y"}, BY_RECORD)
    cell = Cell(spec, load_federation(spec, sources_dir=tmp_path))
    for unit in units(cell):
        found = moved_by(spec, cell.federation, unit, tmp_path, tmp_path / "copies")
        assert "targets" in found
