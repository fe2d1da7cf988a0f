"""What a report advises is carried out as its changes of the spec say: after two steps at most the
figure that it speaks of is better, or it said that training longer would not."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedaudit.privacy.guarantees.cost_sentences import GOAL, MOST
from fedaudit.reports.verdict.advice import better_model, longer_training, smaller_cost
from fedaudit.reports.verdict.advised_run import AdvisedRun
from fedaudit.reports.verdict.worst_off import doubt_of_gaps
from fedaudit.spec.parse import parse_spec
from fedaudit.utility import OF_OUTCOME
from tests.runs.tables import FEATURES, central, laplace, local, write_table
from tests.training.specs import ran, table_spec

Json = dict[str, Any]
TABLES: dict[str, Json] = {
    "plain": {},
    "tiny": {"scale": 0.01},
    "wide": {"scale": 30.0},
    "rare": {"rate": 0.02},
    "empty": {"signal": 0.0},
    "few": {"clients": 12},
    "uneven": {"largest": 2_000},
    "number": {"number": True},
}
NONE: Json = {"mechanism": "none"}
RECORDS: Json = {
    "mechanism": "record-personalised",
    "budgets": {"distribution": "three-levels"},
    "delta": 1e-4,
}


def spec(table: str, privacy: Json, step_size: float, **training: Any) -> Json:
    by_record = privacy["mechanism"] == RECORDS["mechanism"]
    few = {"clients": 5 if table == "few" else 20}
    given: Json = {
        "rounds": 30,
        "cohort": {"sampling": "poisson", "rate": 1} if by_record else few,
        "local": {"step_size": step_size, **({"steps": 1} if by_record else {})},
        "stopping": {"patience": None},
        **training,
    }
    found = table_spec(f"{table}.csv", FEATURES, name=table, privacy=privacy)
    found["training"] |= given
    if table == "number":
        del found["federation"]["positive"]
        found["model"], found["training"]["loss"] = {"kind": "linear"}, "mse"
    return found


def changed(document: Json, changes: list[Json]) -> Json:
    """The spec with the changes, as anything that reads the report's JSON would make them."""
    found = copy.deepcopy(document)
    for one in changes:
        *way, last = one["pointer"].removeprefix("/").split("/")
        place = found
        for step in way:
            place = place.setdefault(step, {})
        place[last] = one["value"]
    return found


def figure(report: Json, name: str) -> float:
    """Smaller is better."""
    section, field = name.split("/")
    found = report[section][field]
    if isinstance(found, dict):  # an interval, which is to be narrow
        return float(found["high"] - found["low"])
    larger_is_better = field in ("balanced_accuracy", "accuracy_over_baseline")
    return -float(found) if larger_is_better else float(found)


def run(document: Json, folder: Path) -> Json:
    return ran(document, folder).report


def steps(
    document: Json, folder: Path, start: Json | None = None
) -> Iterator[tuple[Json, Json, Json]]:
    """Two pieces of advice, each with the reports before and after it, from the report `start` on;
    the last one may be that longer training would not help, or that a threshold is for a person to
    declare."""
    before = start or run(document, folder)
    for _ in range(2):
        advice = before["advice"]
        assert before["verdict_parts"]["next"].startswith(advice["text"])
        if not advice["changes"]:
            said = advice["text"].lower()
            assert "longer training would not" in said or said.startswith("declare another thresh")
            yield before, advice, before
            return
        unchanged, document = document, changed(document, advice["changes"])
        assert document != unchanged
        after = run(document, folder)
        yield before, advice, after
        before = after


def follow(document: Json, folder: Path, start: Json) -> Json:
    """The last report. Fails where the advice did not help, or spent what no longer protects."""
    first = None
    for before, advice, after in steps(document, folder, start):
        if advice["figure"] is not None:
            first = first or (advice["figure"], figure(before, advice["figure"]))
        if any(one["pointer"] == "/privacy/noise_multiplier" for one in advice["changes"]):
            assert cost(after) <= MOST, advice["text"]
        if not advice["changes"]:
            return after
        name, value = first or pytest.fail(advice["text"])
        if figure(after, name) < value:
            return after
    assert not after["advice"]["changes"], advice["text"]
    return after


def cost(report: Json) -> float:
    names = ("epsilon_max", "log_ratio_max", "leakage_max")
    found = [report["privacy"].get(name) for name in names]
    return next((one for one in found if one is not None), 0.0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name, how in TABLES.items():
        write_table(folder / f"{name}.csv", **how)
    return folder


SEVERAL: Json = {"hypotheses": 3, "clustering": {"method": "reported"}}
USEFUL = {
    "steps too short": (spec("tiny", NONE, 0.1), "Training did not come as far as a constant"),
    "steps too long": (spec("plain", NONE, 50), "The steps are too long"),
    "diverged": (spec("number", laplace(0.5), 3), "Noise is not the cause, the steps are too long"),
    "scales": (spec("tiny", laplace(1.0), 0.1), "Noise is not the cause, training did not come"),
    "clip too long": (spec("plain", central(4, 20), 0.1), "train with a clip of 0.2 and a step"),
    "clip hardly used": (spec("plain", central(4, 0.3), 0.001), "costs what this run cost, again"),
    "several models": (spec("plain", central(8, 1), 0.1, **SEVERAL), "one hypothesis"),
    "fixed radius": (spec("plain", laplace(5, radius=1.0, clip=5.0), 0.1), "a step_size of"),
    "too much noise": (spec("plain", local(200, 1), 0.1), "in place of 200"),
    "updates too long": (spec("plain", central(1, 20), 50), "updates are too long"),
    "a number": (spec("number", central(4, 20), 0.1), "train with a clip of"),
    "divided by the rows of the largest": (
        spec("uneven", RECORDS, 1.0, local={"steps": 1, "batch_size": 2_000, "step_size": 0.01}),
        "the steps are too short",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USEFUL)
def test_the_cause_is_named_and_the_advice_helps(tables: Path, name: str) -> None:
    document, said = USEFUL[name]
    first = run(document, tables)
    assert said in first["advice"]["text"]
    assert follow(document, tables, first)["utility"]["degenerate"] is False


def test_where_nothing_is_to_be_learnt_or_shown_it_says_so(tables: Path) -> None:
    for privacy in (NONE, central(4, 1), laplace(1.0)):
        document = spec("empty", privacy, 0.5)
        first = run(document, tables)
        texts = [advice["text"] for _, advice, _ in steps(document, tables, first)]
        assert any("longer training would not" in text.lower() for text in texts) or len(texts) == 2
        assert follow(document, tables, first)["utility"]["degenerate"] is not False
    hopeless = run(spec("few", laplace(100), 0.1), tables)["advice"]
    assert "No setting of this run helps" in hopeless["text"]
    assert hopeless["changes"] == []


def test_steps_are_not_lengthened_where_a_constant_is_all_there_is_or_they_would_diverge(
    tables: Path,
) -> None:
    document = spec("number", NONE, 0.05)
    document["federation"]["standardise"] = "client"
    report = run(document, tables)
    utility = report["utility"]
    # Nine parameters: a step of 0.05 is nearly as long as rows of eight features allow.
    utility |= {"loss_under_baseline": -0.1, "degenerate": True}
    assert "step_size" not in better_model(report).text
    report["spec"]["training"]["local"]["step_size"] = 0.001
    assert [one.value for one in better_model(report).changes] == [0.05]
    report["spec"]["training"]["local"]["step_size"] = 0.02
    assert [one.value for one in better_model(report).changes] == [0.05]
    utility |= {"best_round": 5, "loss_under_baseline": -1e-4 * utility["baseline_loss"]}
    assert "longer training would not" in better_model(report).text


def test_what_has_learnt_and_is_not_shown_is_measured_on_other_rows(tables: Path) -> None:
    report = run(spec("plain", central(1, 0.2), 0.5), tables)
    utility, source = report["utility"], report["spec"]["federation"]
    utility |= {"degenerate": None, "accuracy_over_baseline": 0.01}

    def advised(low: float, **federation: Any) -> dict[str, Any]:
        source.update(federation)
        utility["accuracy_over_baseline_interval"] = {"low": low, "high": 0.03}
        return {one.pointer: one.value for one in better_model(report).changes}

    half = {"/federation/validation_fraction": 0.5}
    by_rows = {"/federation/validation_unit": "record"}
    assert advised(-0.002, validation_fraction=0.48) == by_rows
    # Half of the clients are more than a fifth of them, and fewer then train.
    for clients, changes in ((40, {**half, "/training/cohort/clients": 30}), (20, half)):
        report["spec"]["training"]["cohort"] = {"sampling": "fixed", "clients": clients}
        assert advised(-0.002, validation_fraction=0.2) == changes
    # Half of the rows are 5 / 3 times as many: enough for an interval 1.2 times as long as the
    # gain, and not for one of twice its length, or where half are held out already.
    assert advised(-0.002, validation_unit="record", validation_fraction=0.3) == half
    report["spec"]["training"]["stopping"]["patience"] = None
    utility |= {"best_round": 1}
    assert advised(-0.01) == advised(-0.002, validation_fraction=0.5) == {}
    advised(-0.01)
    assert "about 4 times as many held-out rows" in better_model(report).text
    # Nor where the gain is shown, and something else is in doubt.
    assert advised(0.002) == {}
    assert "held-out" not in better_model(report).text
    # A favourable outcome that it cannot predict is no question of rows.
    utility["reasons"]["degenerate"] = f"by {OF_OUTCOME} the model is no better"
    # Fewer values may be as apt as more.
    assert "if other values of it are, name them in `fairness.favourable`" in (
        better_model(report).text
    )
    assert doubt_of_gaps(report).startswith("The model is not shown to predict what is favourable,")
    utility["reasons"]["degenerate"] = "by accuracy the model is no better"
    assert "not shown to be better than a constant, so" in doubt_of_gaps(report)


def test_a_useful_model_whose_loss_still_falls_trains_longer_at_the_same_cost(tables: Path) -> None:
    for privacy in (NONE, central(2, 0.1)):
        document = spec("plain", privacy, 0.1)
        if privacy is not NONE:
            document["training"]["cohort"] = {"sampling": "poisson", "rate": 1}
        before, advice, after = next(steps(document, tables))
        assert before["utility"]["degenerate"] is False
        assert "train with 60 rounds" in advice["text"]
        assert after["utility"]["validation_loss"] < before["utility"]["validation_loss"]
        assert cost(before) * 0.99 < cost(after) <= cost(before) or privacy is NONE
    # Not where the noise of twice as many rounds may eat up what they bring.
    utility, noise_loss = (
        before["utility"],
        AdvisedRun(before, parse_spec(before["spec"])).noise_loss,
    )
    for times, longer in ((20, True), (7, False), (4, True)):
        utility["loss_under_baseline"] = times * noise_loss
        assert (longer_training(before) is not None) is longer


def test_a_clients_budget_follows_the_noise_and_bars_no_client(tables: Path) -> None:
    document = spec("plain", laplace(9.0, radius=1.0, clip=0.5, client_budget=1.0), 2.0, rounds=4)
    before, advice, after = next(steps(document, tables))
    assert {one["pointer"] for one in advice["changes"]} >= {"/privacy/client_budget"}
    assert after["privacy"]["participations_max"] == before["privacy"]["participations_max"] > 0


def test_noise_of_records_is_a_cause_too(tables: Path) -> None:
    little = {**RECORDS, "epsilon_max": 0.05, "epsilon_min": 0.05}
    document = spec("few", little, 0.5)
    before, advice, after = next(steps(document, tables))
    assert advice["text"].startswith("Noise is about")
    assert "an epsilon of 0.67 in place of 0.05" in advice["text"]
    assert before["utility"]["degenerate"] is not False is after["utility"]["degenerate"]


def test_noise_is_ruled_out_by_its_size_alone_and_steps_do_not_go_to_and_fro(tables: Path) -> None:
    of_all = {"steps": 1, "batch_size": 20, "step_size": 5.0}
    report = run(spec("plain", {**RECORDS, "epsilon_max": 1.0}, 5.0, local=of_all), tables)
    utility, local = report["utility"], report["spec"]["training"]["local"]
    utility |= {"degenerate": None, "accuracy_over_baseline_interval": None, "start_loss": 0.69}

    def advised(
        step: float, loss: float, saved: float, *, best: int = 8, gain: float = 0.06
    ) -> tuple[str, list[Any]]:
        local["step_size"] = step
        utility.update(selection_loss=loss, loss_under_baseline=saved, best_round=best)
        found = better_model({**report, "utility": utility | {"accuracy_over_baseline": gain}})
        return found.text, [one.value for one in found.changes]

    # At such steps noise may add 0.3 to the loss.
    said, changes = advised(5.0, 0.7, -2.0)
    assert said.startswith("Noise is not the cause, the steps are too long, no round")
    assert changes == [0.5]
    said, changes = advised(5.0, 0.7, -0.01)
    assert said.startswith("Noise may add about 0.27 to the loss and be a cause too; the steps are")
    assert changes == [0.5]
    # Nor does a model seem better whose loss is above the constant's.
    for ranks, why in ((True, "training did not come as far as"), (False, "noise grows with them")):
        utility["ranks_above_chance"] = ranks
        said, changes = advised(5.0, 0.68, -0.01)
        assert f"the steps are too long, {why}" in said
        # No tenth, which would be too short.
        assert changes == [1.0]
    # At steps that are not too long by themselves, only where nothing else is being learnt.
    for ranks, best, shorter in ((False, 8, [0.5]), (True, 8, []), (False, 29, []), (True, 29, [])):
        utility["ranks_above_chance"] = ranks
        said, changes = advised(2.0, 0.68, -1e-4, best=best)
        assert (changes, "noise grows with them" in said) == (shorter, bool(shorter))
    utility["ranks_above_chance"] = True
    assert "seems better" not in advised(0.5, 0.68, -1e-4)[0]
    # The loss of a tenth that still falls: longer steps would add more than was gained, or are
    # between the two.
    said, changes = advised(0.5, 0.67, 0.01, best=29)
    assert "seems better than a constant, and the rows are too few to tell" in said
    assert changes == []
    said, changes = advised(0.5, 0.4, 0.3, best=29, gain=0.0)
    assert said.startswith("Noise is not the cause, the steps are too short")
    assert changes == [1.0]
    # Training needs the rows that would be held out; of a larger gain it does not.
    assert advised(0.5, 0.6, 0.04)[1] == []
    assert advised(0.5, 0.3, 0.4)[1] == [0.5]


def test_a_target_that_training_cannot_reach_needs_a_mean(tables: Path) -> None:
    document = spec("number", central(1, 0.05), 0.1)
    head, *lines = (tables / "number.csv").read_text().split("\n")
    cut = [line.rpartition(",") for line in lines]
    large = [f"{rest},{3_000 + 500 * float(score):.0f}" for rest, _, score in cut]
    (tables / "large.csv").write_text("\n".join([head, *large]))
    document["federation"]["path"] = "large.csv"
    for scale, far in ((1, "3,000"), (1000, "3"), ({"mean": 1_000, "deviation": 500}, "4")):
        document["federation"]["scale"] = {"passed": scale}
        advice = run(document, tables)["advice"]
        assert f"and passed is, as scaled, about {far} from where they start" in advice["text"]
        assert advice["changes"] == []
    document["federation"]["scale"] = {"passed": {"mean": 3_000, "deviation": 500}}
    utility = run(document, tables)["utility"]
    assert utility["loss_under_baseline"] > 0.3 * utility["baseline_loss"]


def test_with_losses_withheld_nothing_is_said_of_them(tables: Path) -> None:
    fairness = {
        "sensitive": ["x0"],
        "edges": {"x0": [0]},
        "noise": {"mechanism": "discrete-laplace", "epsilon": 2.94, "unit": "record"},
    }
    document = {**spec("tiny", NONE, 0.01), "fairness": fairness}
    first = run(document, tables)
    assert "all rounds together move the model too little" in first["advice"]["text"]
    assert first["advice"]["figure"] == "utility/accuracy_over_baseline"
    assert follow(document, tables, first)["utility"]["validation_loss"] is None


def test_a_bound_is_met_in_the_worst_case(tables: Path) -> None:
    # Nine parameters over 0.4: the budget is for one participation, and stays so.
    budgeted = laplace(0.4, radius=1.0, clip=0.5, client_budget=23.0)
    for privacy in (laplace(1.0), laplace(1.0, radius=1.0, clip=0.5), budgeted, local(1, 0.3)):
        report = run(spec("plain", privacy, 2.0), tables)
        assert cost(report) > MOST
        advice = report["advice"]
        assert "in the worst case" in advice["text"]
        document = changed(spec("plain", privacy, 2.0), advice["changes"])
        after = run(document, tables)
        assert cost(after) <= GOAL
        assert figure(after, advice["figure"]) < figure(report, advice["figure"])
        for name in ("leakage_max", "log_ratio_max") if privacy is budgeted else ():
            for_gate = smaller_cost(report, goal=5.0, figure=name)
            assert [one.value for one in for_gate.changes] == [1.8, 5.0]
            assert "a noise_multiplier of 1.8 instead of 0.4, and a client_budget of 5" in (
                for_gate.text
            )


BAD: dict[str, tuple[Json, float]] = {
    "none-short": (NONE, 1e-4),
    "none-long": (NONE, 50.0),
    "laplace": (laplace(2.0), 0.01),
    "laplace-fixed": (laplace(10.0, radius=1.0, clip=3.0), 0.01),
    "local": (local(3, 5), 0.1),
    "central": (central(4, 10), 0.1),
    "records": (RECORDS, 0.001),
}


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", BAD)
def test_advice_helps_over_all_tables_and_mechanisms(tables: Path, table: str, name: str) -> None:
    document = spec(table, *BAD[name])
    first = run(document, tables)
    if first["utility"]["degenerate"] is not False:
        follow(document, tables, first)


@pytest.mark.slow
@pytest.mark.parametrize("example", ["table-income", "heart-disease"])
@pytest.mark.parametrize("name", BAD)
def test_advice_helps_on_real_tables(data_dir: Path, example: str, name: str) -> None:
    if name == "records":
        pytest.skip("these examples have no budgets")
    document = yaml.safe_load(Path(f"examples/{example}.yaml").read_text())
    privacy, step_size = BAD[name]
    document |= {"privacy": privacy, "gates": [], "attacks": []}
    document["federation"]["validation_unit"] = "client"
    document.setdefault("fairness", {})["minimum_group_clients"] = 1  # one hospital is held out
    document["training"] |= {"hypotheses": 1, "rounds": 30, "local": {"step_size": step_size}}
    document["training"]["stopping"] = {"patience": None}
    document["training"].pop("clustering", None)
    document["training"]["cohort"] = {"clients": {"table-income": 12, "heart-disease": 3}[example]}
    first = run(document, data_dir)
    if first["utility"]["degenerate"] is not False:
        follow(document, data_dir, first)
