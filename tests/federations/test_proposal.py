"""A registration proposed for a table: it parses as it is, and says why it says what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedaudit.federations.proposals.column_survey import Column, good_class, named, survey_table
from fedaudit.federations.proposals.proposal import Proposal, proposal_yaml, propose
from fedaudit.federations.reading.source_files import Files, open_path
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import decode_text
from fedaudit.spec.registration import parse_uploaded
from tests.federations.conftest import profile_in
from tests.federations.proposal_tables import TABLES, Cell, gaps, in_turn, table
from tests.refusals import refused_by


def proposed(folder: Path, text: str, **known: Any) -> Proposal:
    (folder / "data.csv").write_text(text)
    most_rows = known.pop("most_rows", 10_000)
    with open_path("data.csv", files=Files(folder), pointer="/federation/path") as file:
        survey = survey_table(file, header=True, most_rows=most_rows)
    return propose(survey, name="data.csv", **known)


def profiled(folder: Path, registration: dict[str, Any]) -> dict[str, Any]:
    """The profile of what was proposed."""
    federation = {**registration["federation"], "path": "data.csv"}
    return profile_in(folder, {**registration, "federation": federation})


def names(proposal: Proposal) -> list[str]:
    features = proposal.federation["features"]
    return [one if isinstance(one, str) else one["name"] for one in features]


@pytest.mark.parametrize("name", TABLES)
def test_it_is_profiled_as_it_is_and_with_every_commented_field(tmp_path, name):
    found = proposed(tmp_path, TABLES[name])
    text = proposal_yaml(found)
    assert parse_uploaded(decode_text(text), file_name="data.csv") == parse_uploaded(
        found.registration, file_name="data.csv"
    )
    field = re.compile(r"\s*# [a-z_]+: [\[{]")
    lines = text.split("\n")
    offered = [place for place, line in enumerate(lines) if field.match(line)]
    for taken in [[], offered, *([one] for one in offered)]:
        chosen = [
            line.replace("# ", "", 1) if place in taken else line
            for place, line in enumerate(lines)
        ]
        profile = profiled(tmp_path, decode_text("\n".join(chosen)))
        assert profile["rows"] > 90
        assert taken or set(profile["attributes"]) == set(found.candidates["sensitive"])
    # Of a number without a scale no useful model is expected where records are protected.
    source = found.federation
    whole = [one for one in source["features"] if isinstance(one, dict)]
    categorical = {one["name"] for one in whole if one.get("kind") == "categorical"}
    assert {*names(found)} - categorical <= {*source.get("scale", {})}


def test_codes_bad_outcomes_and_outcomes_that_give_it_away(tmp_path: Path) -> None:
    found = proposed(tmp_path, TABLES["coded"])
    federation = found.federation
    assert (federation["client_key"], federation["target"]) == ("county", "two_year_recid")
    assert federation["positive"] == "0"
    assert "sounds bad for people" in found.guesses["/federation/positive"]
    assert names(found) == ["priors_count"]
    assert "identifier" in found.left_out["id"]
    assert "another outcome" in found.left_out["is_recid"]
    assert found.candidates["sensitive"] == ["SEX", "RAC1P"]
    assert found.codes == {
        "two_year_recid": ["0", "1"],
        "SEX": ["1", "2"],
        "RAC1P": ["1", "2", "3", "4"],
    }
    assert 'SEX: {"1": "what 1 means", "2": "what 2 means"}' in proposal_yaml(found)
    chosen = proposed(tmp_path, TABLES["coded"], target="is_recid", client_key="RAC1P").federation
    assert (chosen["client_key"], chosen["target"]) == ("RAC1P", "is_recid")


def test_thousands_of_users_are_clients_and_classes_in_the_last_column_are_the_target(
    tmp_path: Path,
) -> None:
    columns: dict[str, Cell] = {
        "user": lambda row: f"u{row // 3}",
        "income": lambda row: f"{row % 71}.5",
        "x": lambda row: row % 50,
    }
    clicked = proposed(tmp_path, table(6_000, {**columns, "clicked": in_turn("n", "y", "y", "y")}))
    assert clicked.federation["client_key"] == "user"
    assert clicked.federation["target"] == "clicked"
    alone = proposed(tmp_path, table(6_000, {**columns, "user": lambda row: f"u{row}"}))
    assert "client_key" not in alone.federation


def test_gaps_texts_and_missing_clients_get_their_rules(tmp_path: Path) -> None:
    found = proposed(tmp_path, TABLES["text-age"])
    federation = found.federation
    assert federation["missing_values"] == ["?", "NA"]
    assert federation["positive"] == "good"
    savings, purpose = federation["features"]
    assert (savings["missing"], purpose["missing"]) == ("constant", "constant")
    assert purpose["categories"] == ["car", "tv"]
    assert "edges" not in found.fairness
    keys = proposed(tmp_path, TABLES["missing-keys"])
    assert keys.federation["missing_client"] == keys.federation["missing_target"] == "drop-row"
    assert keys.fairness["edges"] == {"age": [30.0, 50.0]}


@pytest.mark.parametrize("gap", ["NA", "?", ""])
def test_medians_and_ranges_are_of_the_numbers_alone(tmp_path: Path, gap: str) -> None:
    columns: dict[str, Cell] = {
        "hospital": in_turn("a", "b", "c"),
        "age": gaps(4, lambda row: 40 + row % 41, text=gap),
        "pressure": gaps(4, lambda row: 100 + row % 41, text=gap),
        "dose": gaps(4, lambda row: f"{20 + row % 41}e-6", text=gap),
        "score": gaps(9, lambda row: 500 + row % 41, text=gap),
    }
    found = proposed(tmp_path, table(4_100, columns), target="score")
    _, dose = found.federation["features"]
    assert (found.fairness["sensitive"], found.fairness["edges"]) == (["age"], {"age": [50, 70]})
    assert found.federation["features"][0]["fill"] == 120
    assert found.suggested == {"op": "ge", "value": 500}
    assert "score, if as much is publicly known, {mean: 520, " in found.guesses["/federation/scale"]
    # For a reader of YAML 1.1 `4e-05` is a text.
    assert dose["fill"] == 4e-05
    read = yaml.safe_load(proposal_yaml(found))
    assert read["federation"]["features"] == found.federation["features"]


def test_of_a_sorted_file_with_many_values_the_median_is_of_all_rows(tmp_path: Path) -> None:
    columns: dict[str, Cell] = {
        "hospital": in_turn("a", "b", "c"),
        "lab": lambda row: row / 10 if row % 10 else "",
        "y": in_turn("n", "y", "y", "y"),
    }
    found = proposed(tmp_path, table(5_000, columns))
    # All rows are in the sample; of more a fixed part is, whose rank errs by 0.01.
    assert found.federation["features"][0]["fill"] == 249.9
    twice = proposed(tmp_path, table(20_000, columns), most_rows=20_000)
    assert abs(twice.federation["features"][0]["fill"] - 1_000) < 100


def test_ages_of_things_having_none_and_codes_below_zero_are_no_gaps_of_people(tmp_path):
    columns: dict[str, Cell] = {
        "branch": lambda row: f"b{row % 9}",
        "car_age": lambda row: row % 20,
        "account_holder_age": lambda row: 18 + row % 60,
        "insurance": in_turn("none", "public"),
        "km": gaps(30, lambda row: 100 + row, text="-999"),
        "income": lambda row: 1000 + row,
        "claim": in_turn(0, 0, 1),
    }
    found = proposed(tmp_path, table(300, columns), target="claim")
    assert found.fairness["sensitive"] == ["account_holder_age"]
    assert found.federation["features"] == [
        "car_age",
        {"name": "insurance", "kind": "categorical", "categories": ["none", "public"]},
        "km",
    ]
    assert "-999 is its only value below 0" in found.guesses["/federation/features/2"]
    assert "name it under `features`" in found.left_out["income"]


def test_one_attribute_in_several_columns_is_offered_to_be_joined(tmp_path: Path) -> None:
    found = proposed(tmp_path, TABLES["one-hot"])
    groups = {"Race_Black": "Black", "Race_White": "White", "Race_Asian": "Asian"}
    assert found.joinable == {"Race": groups}
    assert "# join: {Race: {columns: {Race_Black: Black, " in proposal_yaml(found)


def test_a_german_clinic_table_is_understood(tmp_path: Path) -> None:
    found = proposed(tmp_path, TABLES["german"])
    federation = found.federation
    assert (federation["client_key"], federation["target"]) == ("Klinik", "verstorben")
    assert federation["positive"] == "nein"
    assert names(found) == ["Größe (m)", "CRP", "Versicherung"]
    assert found.fairness["sensitive"] == ["Geschlecht", "Alter"]
    assert found.fairness["edges"] == {"Alter": [30.0, 50.0]}
    assert "identifier" in found.left_out["Fallnummer"]
    assert "dates" in found.left_out["Aufnahmedatum"]
    assert "decimal point" in proposal_yaml(found)
    notes = profiled(tmp_path, found.registration)["notes"]
    assert any("semicolons" in note for note in notes)


def test_a_damage_is_bad_and_what_may_name_clients_is_listed(tmp_path: Path) -> None:
    columns: dict[str, Cell] = {
        "Vertrag": lambda row: f"V{row}",
        "Ort": lambda row: f"{'AB'[row % 2]}{row % 40}",
        "Tarif": lambda row: f"{row % 30:03d}",
        "Tag": lambda row: f"{1 + row % 28:02}.08.2025",
        "Nr": lambda row: row % 7,
        "Miete": lambda row: f"{row} €",
        "Beruf": in_turn("k. A.", "Arzt", "Koch"),
        "Schadensfall": lambda row: "nein" if row % 9 else "ja",
    }
    found = proposed(tmp_path, table(300, columns, parted_by=";"))
    assert (found.federation["target"], found.federation["positive"]) == ("Schadensfall", "nein")
    assert found.candidates["client_key"] == ["Ort"]
    assert found.guesses["/federation/partition"].endswith("of those that may: Ort")
    assert "some begin with 0" in found.guesses["/federation/features/1"]
    assert "written as '0 €' are not read" in found.left_out["Miete"]
    assert found.federation["missing_values"] == ["k. A."]


@pytest.mark.parametrize("name", ["PAY_AMT1", "loan_amt"])
def test_an_amount_names_no_client(tmp_path: Path, name: str) -> None:
    columns: dict[str, Cell] = {
        name: lambda row: 1000 * (row % 20),
        "Children": lambda row: row % 31,
        "hired": in_turn(0, 1),
    }
    assert proposed(tmp_path, table(300, columns)).candidates["client_key"] == []


def test_beside_a_client_by_its_name_others_with_more_values_are_named(tmp_path: Path) -> None:
    columns: dict[str, Cell] = {
        "region": in_turn("north", "east", "south", "west"),
        "office": lambda row: f"office {row // 4}",
        "new_device": in_turn(0, 1),
        "x": lambda row: row % 17 / 4,
        "placed": in_turn("yes", "no", "no"),
    }
    found = proposed(tmp_path, table(300, columns))
    assert found.federation["client_key"] == "region"
    assert found.guesses["/federation/client_key"].endswith("; others might: office")


@pytest.mark.parametrize("name", ["schadenfrei", "Unfallversicherung"])
def test_to_be_free_of_damage_or_insured_is_not_bad(name: str) -> None:
    assert named(name, "target", bad=True) is None


def test_classes_that_differ_in_capitals_alone_are_remarked_and_the_good_one_is_suggested(
    tmp_path: Path,
) -> None:
    columns: dict[str, Cell] = {
        "Behörde": lambda row: f"A{row % 12}",
        "Kinder": lambda row: row % 31,
        "Bescheid": in_turn("bewilligt", "abgelehnt", " Abgelehnt", "zurück"),
    }
    found = proposed(tmp_path, table(300, columns))
    assert found.federation["client_key"] == "Behörde"
    assert "capitals or spaces alone" in found.guesses["/federation/target"]
    assert found.suggested == {"op": "in", "value": ["bewilligt"]}


@pytest.mark.parametrize(
    ("name", "concept"),
    [
        *((name, "client") for name in (
            "Klinikname", "hôpital_id", "Centro de salud", "ospedale", "Região", "ziekenhuisnr",
            "Szpital", "Sjukhus", "Kundennummer")),
        *((name, "sensitive") for name in (
            "Geschlechtcode", "sexe", "género", "Sesso", "raça", "Geslacht", "Płeć", "kön")),
        *((name, "age") for name in (
            "ALTER", "âge", "edad", "Età", "idade", "leeftijdsgroep", "wiek", "Ålder")),
        *((name, "target") for name in (
            "Einkommen", "décès", "Reingreso", "esito", "óbito", "overleden", "zgon", "utfall")),
        *((name, "identifier") for name in (
            "Fallnummer", "numéro", "número", "nome", "klantnummer", "identyfikator",
            "personnummer")),
    ],
)  # fmt: skip
def test_names_are_understood_in_the_large_languages_of_europe(name: str, concept: Any) -> None:
    assert named(name, concept)
    assert not named("Blutdruck systolic", concept)


def test_what_gives_the_outcome_away_is_no_feature_and_is_warned_of(tmp_path: Path) -> None:
    leaked = proposed(tmp_path, TABLES["leaked"])
    assert names(leaked) == ["hours"]
    assert "`passed` almost without error" in leaked.left_out["verdict"]
    assert leaked.fairness["edges"] == {"share_black": [0.3, 0.6]}
    categories = ["excels", "moves up", "repeats"]
    verdict = {"name": "verdict", "kind": "categorical", "categories": categories}
    features = {"features": ["hours", "failed_mark", verdict]}

    def warned(*reviewed: str) -> set[int]:
        source = {**leaked.federation, **features, "leak_reviewed": list(reviewed)}
        found = profiled(tmp_path, {**leaked.registration, "federation": source})
        pointers = {one["pointer"] for one in found["warnings"]}
        return {place for place in range(3) if f"/federation/features/{place}" in pointers}

    assert warned() == {1, 2}
    assert warned("verdict") == {1}
    with pytest.raises(InvalidInputError, match="/federation/leak_reviewed/0"):
        warned("Verdict")
    survival = proposed(tmp_path, TABLES["survival"])
    assert names(survival) == ["dose", "dose.1"]
    assert {"from", "until", "event"} == set(survival.left_out)


def test_a_number_is_given_away_by_a_near_copy_and_not_by_a_cause(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    cause = random.normal(size=400)
    target = cause + 0.3 * random.normal(size=400)
    columns: dict[str, Cell] = {
        "client": lambda row: row % 9,
        "dose": lambda row: f"{cause[row]:.4f}",
        "billed": lambda row: f"{np.exp(target[row]):.4f}",
        "cost": lambda row: f"{target[row]:.4f}",
    }
    found = proposed(tmp_path, table(400, columns))
    assert names(found) == ["dose"]
    assert "almost without error" in found.left_out["billed"]


@pytest.mark.parametrize(
    ("middle", "step", "declared"),
    [
        (31_234, 150, "{mean: 30000, deviation: 5000}"),
        (95_004, 0.3, "{mean: 95000, deviation: 10}"),
        (-3.32, 0.003, "{mean: -3.3, deviation: 0.1}"),
    ],
)
def test_of_a_number_a_mean_is_suggested_that_is_near(tmp_path, middle, step, declared) -> None:
    lines = [f"t{row % 20},{row % 7},{middle + step * (row % 101 - 50)}" for row in range(505)]
    found = proposed(tmp_path, "\n".join(["town,hours,earnings", *lines]), target="earnings")
    assert declared in found.guesses["/federation/scale"]
    assert found.federation["scale"]["earnings"] >= abs(middle)


def test_without_a_column_of_clients_rows_are_dealt_and_it_says_so(tmp_path: Path) -> None:
    found = proposed(tmp_path, TABLES["nobody"])
    assert found.federation["partition"] == {"method": "iid", "clients": 10}
    assert "better name a column" in found.guesses["/federation/partition"]
    assert "no column's name sounds sensitive" in proposal_yaml(found)


def test_the_first_rows_alone_are_read_where_there_are_more(tmp_path: Path) -> None:
    found = proposed(tmp_path, TABLES["coded"], most_rows=50)
    assert (found.rows, found.complete) == (50, False)
    assert "Only the first 50 rows were read" in proposal_yaml(found)


@pytest.mark.parametrize(
    ("text", "known", "pointer"),
    [
        ("a,b\n1,1\n1,1\n", {}, "/federation/target"),
        ("a,y\n1,0\n1,1\n", {}, "/federation/features"),
        (TABLES["nobody"], {"target": "w"}, "/federation/target"),
        (TABLES["nobody"], {"client_key": "w"}, "/federation/client_key"),
        ("a,b,y\n1,2,\n2,3,\n", {"target": "y"}, "/federation/target"),
        ("", {}, "/federation/path"),
        ("1,1,0\n2,3,1\n", {}, "/federation/path"),
    ],
)
def test_a_table_that_cannot_be_proposed_says_where(tmp_path, text, known, pointer):
    [fault] = refused_by(proposed, tmp_path, text, **known)
    assert fault.pointer == pointer
    assert ("`header: false` (scaffold: --no-header)" in fault.message) is text.startswith("1,1")


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("status", "not improved", "improved"),
        ("status", "dead", "alive"),
        ("status", "relapse", "no relapse"),
        ("status", "worse", "better"),
        ("complication", "yes", "no"),
    ],
)
def test_the_good_class_is_not_the_bad_one_and_without_evidence_says_so(name, bad, good):
    column = Column(name)
    column.add([bad, good], [30, 30])
    found, why = good_class(column)
    assert found == good
    assert ("chosen without evidence" in why) is (bad == "not improved")


def test_what_was_stated_is_no_guess(tmp_path: Path) -> None:
    found = proposed(tmp_path, TABLES["coded"], client_key="county", target="two_year_recid")
    for field in ("client_key", "target"):
        assert found.guesses[f"/federation/{field}"].startswith("as stated: ")


def test_where_no_column_can_be_a_feature_each_has_its_reason(tmp_path: Path) -> None:
    rows = "".join(f"c{row % 9},{row % 70},{row / 7},{row % 2}\n" for row in range(200))
    [fault] = refused_by(proposed, tmp_path, f"clinic,age,score,outcome\n{rows}")
    assert fault.pointer == "/federation/features"
    assert "score (it may be another outcome" in fault.message


_CELLS = st.sampled_from(["", "?", "1", "2.5", "-3", "yes", "no", "a: b", "# c", "{x}", "'", "1e9"])
_NAMES = st.sampled_from(
    ["id", "SEX", "age", "hospital", "y", "x # 1", "a: b", "no", "null", "é", "-", "[z]", "1"]
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_whatever_a_table_holds_its_yaml_is_the_registration(tmp_path, data):
    head = data.draw(st.lists(_NAMES, min_size=3, max_size=6, unique=True))
    row = st.lists(_CELLS, min_size=len(head), max_size=len(head))
    rows = data.draw(st.lists(row, min_size=4, max_size=30))
    text = "\n".join(",".join(one) for one in [head, *rows]) + "\n"
    try:
        found = proposed(tmp_path, text)
    except InvalidInputError:
        return
    read = decode_text(proposal_yaml(found))
    assert parse_uploaded(read, file_name="d") == parse_uploaded(found.registration, file_name="d")
