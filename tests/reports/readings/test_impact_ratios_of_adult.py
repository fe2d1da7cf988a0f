"""UCI Adult by sex and race: the table of impact ratios against one worked out from the file."""

import csv
import gzip
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fedaudit.cli.run import run_locally
from fedaudit.federations.load import load_federation
from fedaudit.federations.split import split_clients
from fedaudit.reports.readings.impact_ratio import impact_ratio
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack

EXAMPLE = Path(__file__).parents[3] / "examples" / "adult-occupation.yaml"


@pytest.fixture(scope="module")
def spec() -> ExperimentSpec:
    """The example with one hypothesis and fewer rounds, by sex and race together too."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    document["training"] |= {"hypotheses": 1, "rounds": 100}
    document["fairness"]["intersections"] = [["sex", "race"]]
    return parse_spec(document)


def selected_by_hand(spec: ExperimentSpec, data: Path) -> dict[tuple[str, str], list[bool]]:
    """Whether the model takes each held-out person to earn more, by sex and race.

    Features are made here from the file's columns; of the library are the trained parameters and
    who is held out.
    """
    federation = load_federation(spec, sources_dir=data)
    stack = Stack([Cell(spec=spec, federation=federation)], device="cpu")
    while stack.active:
        stack.advance(50)
    (theta,) = stack.result(0).hypotheses.astype(np.float64)
    split = split_clients(federation.clients, validation_fraction=0.3, seed=spec.seed)
    held_out = {federation.client_names[place] for place in split.validation}
    workclass, marital = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["federation"][
        "features"
    ][-2:]
    found: dict[tuple[str, str], list[bool]] = {}
    with gzip.open(data / "adult" / "adult_raw.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["occupation"] not in held_out:
                continue
            features = [
                float(row["age"]) / 100,
                float(row["education-num"]) / 16,
                float(row["hours-per-week"]) / 100,
                min(float(row["capital-gain"]), 20000) / 20000,
                min(float(row["capital-loss"]), 4000) / 4000,
                *(row["workclass"] == one for one in workclass["categories"]),
                *(row["marital-status"] == one for one in marital["categories"]),
            ]
            score = float(np.dot(features, theta[:-1]) + theta[-1])
            found.setdefault((row["sex"], row["race"]), []).append(score > 0)
    return found


def test_the_table_is_that_of_the_file(spec: ExperimentSpec, data_dir: Path) -> None:
    report = run_locally(spec, sources_dir=data_dir, device="cpu", progress=lambda _: None).report
    tables = {table.attribute: table for table in impact_ratio(report).tables}
    cells = selected_by_hand(spec, data_dir)
    sexes, races = sorted({sex for sex, _ in cells}), sorted({race for _, race in cells})
    people: dict[str, dict[str, list[bool]]] = {
        "sex": {sex: [] for sex in sexes},
        "race": {race: [] for race in races},
        "sex_race": {f"{sex}, {race}": [] for sex, race in product(sexes, races)},
    }
    for (sex, race), selected in cells.items():
        for attribute, value in (("sex", sex), ("race", race), ("sex_race", f"{sex}, {race}")):
            people[attribute][value] += selected
    assert list(tables) == list(people)
    assert tables["sex_race"].intersection_of == ["sex", "race"]
    for attribute, groups in people.items():
        shown = {one.category: one for one in tables[attribute].categories if not one.suppressed}
        assert {one.category for one in tables[attribute].categories} == set(groups)
        assert all(len(groups[value]) >= 30 for value in shown)
        rates = {value: np.mean(groups[value]) for value in shown}
        highest = max(rates.values())
        assert highest > 0
        for value, one in shown.items():
            assert one.rate == pytest.approx(rates[value], abs=1e-12)
            assert one.impact_ratio == pytest.approx(rates[value] / highest, abs=1e-12)
            below = rates[value] < 0.8 * highest
            assert one.four_fifths == ("below four fifths" if below else "at least four fifths")
    hidden = [one.category for one in tables["sex_race"].categories if one.suppressed]
    small = [value for value, taken in people["sex_race"].items() if len(taken) < 30]
    assert set(small) < set(hidden), "each small cell hides another of its sex and of its race"
    assert any(table.below_four_fifths for table in tables.values())
