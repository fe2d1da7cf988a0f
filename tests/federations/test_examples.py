"""The example specs, and real data where they are at hand."""

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reproductions.drawn_figures import drawn_figures
from benchmarks.reproductions.kept_sweeps import KEPT, read_kept
from benchmarks.reproductions.side_by_side import TABLES, tables
from fedaudit.cli.run import run_locally
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.groups import outcome_rules
from fedaudit.federations.load import load_federation
from fedaudit.runs.experiment_plan import plan_experiment
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import decode_text, parse_spec
from fedaudit.spec.sweeps import SEED, expand, parse_cells, parse_sweep
from fedaudit.sweeps.sweep_costs import sweep_facts

SWEEP = Path(__file__).parents[2] / "examples/sweep.yaml"
EXAMPLES = sorted(set(SWEEP.parent.glob("*.yaml")) - {SWEEP})


def example(name: str) -> ExperimentSpec:
    (path,) = (path for path in EXAMPLES if path.stem == name)
    return parse_spec(decode_text(path.read_text(encoding="utf-8")))


def check_usable(federation: Federation, spec: ExperimentSpec) -> None:
    """What every example's data must be like, the real ones and those made up in their shape."""
    assert (federation.counts >= 1).all()
    if not isinstance(federation.features, ClientRows):
        assert np.isfinite(federation.features).all()
        assert np.abs(federation.features).max() < 20, "in the range of the units"
    if spec.fairness.sensitive:
        favourable = outcome_rules(federation, spec.fairness).label(federation.raw_target)
        assert 0.05 < favourable.mean() < 0.95, "both outcomes occur"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_spec_that_loads(path: Path, request: pytest.FixtureRequest) -> None:
    spec = parse_spec(decode_text(path.read_text(encoding="utf-8")))
    folder = None
    if hasattr(spec.federation, "path"):
        folder = path.parent
        if not (folder / str(spec.federation.path)).exists():
            folder = request.getfixturevalue("data_dir")
        if not (folder / str(spec.federation.path)).exists():
            pytest.skip(f"{spec.federation.path} is not among the real data at hand")
    check_usable(load_federation(spec, sources_dir=folder), spec)


def test_every_cell_of_the_sweep_loads() -> None:
    cells = parse_cells(parse_sweep(decode_text(SWEEP.read_text(encoding="utf-8"))), parse_spec)
    assert len(cells) > 1
    for _, spec in cells:
        check_usable(load_federation(spec, sources_dir=None), spec)


def test_examples_are_there() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        *("hospital", "hospital-providers", "synthetic-linear", "synthetic-groups-k1"),
        *("synthetic-groups-k2", "federated-averaging", "ifca", "table-income"),
        *("income-intersections", "heart-disease", "heart-disease-records", "adult-occupation"),
        "mnist",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_coins_or_blocks_unless_they_repeat_a_paper(path: Path) -> None:
    head = path.read_text("utf-8").partition("spec_version")[0]
    spec, repeats = example(path.stem), "Galli et al." in head
    if not repeats and spec.privacy.mechanism != "none":
        assert spec.training.cohort.sampling in ("poisson", "allocation")
        assert getattr(spec.privacy, "accountant", "pld") == "pld"
        assert spec.training.stopping.patience is None or "rPDP-FL" in head


@pytest.mark.parametrize(
    "name", ["people", "adult-occupation", "heart-disease", "hospital-providers"]
)
def test_examples_learn(name: str, request: pytest.FixtureRequest) -> None:
    folder = SWEEP.parent if name == "people" else request.getfixturevalue("data_dir")
    ran = run_locally(example(name), sources_dir=folder, device="cpu", progress=lambda _: None)
    utility = ran.report["utility"]
    assert utility["loss_under_baseline"] > 0.05 * utility["baseline_loss"]
    assert utility["degenerate"] is not True


def written(folder: Path, spec: ExperimentSpec, lines: Iterable[Iterable[object]]) -> Federation:
    """The federation of a spec whose file is made up."""
    path = folder / str(getattr(spec.federation, "path", None))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(",".join(map(str, line)) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    federation = load_federation(spec, sources_dir=folder)
    check_usable(federation, spec)
    return federation


def test_a_table_shaped_like_the_hearts(tmp_path: Path) -> None:
    names = "hospital,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num"
    rows = [
        [f"h{row % 4}", 30.0 + row % 40, row % 2 * 1.0, 1.0 + row % 4, 120.0, "" if row < 6 else 0,
         1.0, row % 3 * 1.0, 150.0, 0.0, -0.5, "", "", "", row % 5, row // 2 % 2]
        for row in range(80)
    ]  # fmt: skip
    federation = written(tmp_path, example("heart-disease"), [[*names.split(","), "target"], *rows])

    assert federation.rows == 74
    assert federation.notes == ("rows with an empty cell in 'chol', left out: 6",)
    assert federation.feature_names[:6] == ("age", "sex", "cp=1", "cp=2", "cp=3", "cp=4")
    assert federation.attribute("age").values == ("<50", "50 to <60", ">=60")


def test_a_table_shaped_like_the_adults(tmp_path: Path) -> None:
    names = (
        "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,"
        "sex,capital-gain,capital-loss,hours-per-week,native-country,income-per-year"
    )
    rows = [
        [20 + row % 60, ["Private", "?", "State-gov"][row % 3], 1, "11th", 1 + row % 16,
         ["Divorced", "Widowed"][row % 2], "?" if row % 15 == 14 else f"job {row % 15}", "Wife",
         "Black", ["Male", "Female"][row // 2 % 2], [0, 99999][row == 3], 0, 40, "?",
         [">50K", "<=50K"][row % 4 > 0]]
        for row in range(150)
    ]  # fmt: skip
    federation = written(tmp_path, example("adult-occupation"), [names.split(","), *rows])

    assert federation.clients == 15
    assert federation.classes == ("<=50K", ">50K")
    assert federation.width == 5 + 9 + 7
    assert federation.notes == (
        "some values of 'capital-gain' outside its range were brought to its ends",
    )


def test_a_table_shaped_like_the_incomes(tmp_path: Path) -> None:
    names = "state,AGEP,COW,SCHL,MAR,OCCP,POBP,RELP,WKHP,SEX,RAC1P,PINCP"
    rows = [
        [f"S{row % 35}", 17 + row % 60, 1 + row % 8, 1 + row % 24, 1 + row % 5, 10, 1, 0, 40,
         1 + row % 2, 1 + row % 9, row // 2 % 2]
        for row in range(350)
    ]  # fmt: skip
    federation = written(tmp_path, example("table-income"), [names.split(","), *rows])
    assert federation.clients == 35
    assert federation.width == 3 + 8 + 5


def test_a_table_shaped_like_the_digits(tmp_path: Path) -> None:
    rows = [[row % 256] * 784 + [row % 10] for row in range(300)]
    federation = written(tmp_path, example("mnist"), rows)
    assert federation.width == 784
    assert federation.rows == 300
    assert federation.side_by_side.max() == 1
    assert federation.classes == tuple("0123456789")


def hospital(**federation: object) -> object:
    return {
        "name": "real",
        "federation": {"source": "hospital-charges", **federation},
        "model": {"kind": "mlp", "hidden": [2]},
        "training": {"loss": "rmse", "rounds": 1, "cohort": {"clients": 100}},
        "privacy": {"mechanism": "none"},
        "fairness": {"sensitive": ["state"], "favourable": {"op": "le", "value": 7000}},
    }


@pytest.mark.parametrize(("key", "clients"), [("zip", 2948), ("provider_id", 3151)])
def test_the_whole_hospital_file_and_the_derived_one_agree(data_dir, key, clients):
    derived = load_federation(
        parse_spec(hospital(path="hospital_charges/four_conditions.csv.gz", client_key=key)),
        sources_dir=data_dir,
    )
    whole = load_federation(
        parse_spec(
            hospital(
                path="hospital_charges/ipps_fy2011_top100_drg.csv.gz",
                zip_table="zip_codes/us_zip_lat_lon.csv.gz",
                client_key=key,
            )
        ),
        sources_dir=data_dir,
    )

    assert derived.clients == clients
    assert derived.rows == 11_915
    left_out = 11_915 - whole.rows
    assert whole.notes == (f"rows without coordinates, left out: {left_out}",) * bool(left_out)
    shared = [derived.client_names.index(name) for name in whole.client_names]
    assert len(shared) >= 0.95 * clients
    for here, there in zip(range(whole.clients), shared, strict=True):
        a, b = whole.own(here), derived.own(there)
        if whole.counts[here] == derived.counts[there]:
            one = np.column_stack([whole.raw_target[a], whole.side_by_side[a]])
            two = np.column_stack([derived.raw_target[b], derived.side_by_side[b]])
            assert np.array_equal(one[np.lexsort(one.T)], two[np.lexsort(two.T)])


def test_hearts_without_the_columns_that_have_gaps(data_dir: Path) -> None:
    federation = load_federation(example("heart-disease"), sources_dir=data_dir)
    rows = dict(zip(federation.client_names, federation.counts.tolist(), strict=True))
    assert rows == {"cleveland": 303, "hungarian": 261, "switzerland": 46, "va": 130}
    assert federation.classes == ("0", "1")
    assert federation.attribute("sex").values == ("0.0", "1.0")
    assert federation.notes[0].endswith("left out: 180")
    assert federation.notes[1:] == tuple(
        f"some values of '{name}' outside its range were brought to its ends"
        for name in ("trestbps", "chol")
    )


# -- the sweeps of the papers' tables and figures -------------------------------------------------


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "reproduction.md"
FILES = sorted((ROOT / "examples" / "papers").glob("*.yaml"))
PLAYED = [path for path in FILES if read_kept(ROOT / KEPT, path.stem) is not None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sweep_can_be_asked_for_and_its_costs_projected(path, request):
    text = path.read_text(encoding="utf-8")
    asked = parse_sweep(decode_text(text))
    cells = parse_cells(asked, parse_spec)
    stated = re.search(r"(\d+)\s*(?:# )?cells", text)
    assert asked.name == path.stem
    assert int(stated[1]) == len(cells) == asked.cells
    first, last = cells[0][1], cells[-1][1]
    if first.federation.traits.files:
        sources = request.getfixturevalue("data_dir")
        if not all((sources / file).is_file() for file in first.federation.traits.files):
            pytest.skip(f"{first.federation.traits.files} are not among the real data at hand")
    else:
        sources = None
    loaded = load_federation(first, sources_dir=sources)
    planned = [plan_experiment(first, loaded)]
    if (last.federation, last.seed) != (first.federation, first.seed):
        loaded = load_federation(last, sources_dir=sources)
    planned.append(plan_experiment(last, loaded))
    facts = sweep_facts([(one.spec, one.ledger_context) for one in planned])
    assert facts["noises"] == ["simulation"]
    for one in planned:
        worst = one.projection.leakage_worst_case or sum(
            float(str(entry["value"])) for entry in one.projection.epsilon
        )
        unprotected = one.spec.privacy.mechanism == "none" or (
            getattr(one.spec.privacy, "baseline", None) == "privacy-free"
        )
        assert (worst > 0) is not unprotected


def test_every_sweep_has_its_table_and_is_named_in_the_docs() -> None:
    stems = [path.stem for path in FILES]
    documentation = PAGE.read_text(encoding="utf-8")
    assert set(TABLES) == set(stems)
    assert [stem for stem in stems if f"{stem}.yaml" not in documentation] == []


@pytest.mark.parametrize("path", PLAYED, ids=lambda path: path.stem)
def test_what_is_kept_of_a_sweep_is_of_the_cells_that_its_file_asks_for(path: Path) -> None:
    kept = read_kept(ROOT / KEPT, path.stem)
    cells = expand(parse_sweep(decode_text(path.read_text(encoding="utf-8"))))
    asked = [{path: one for path, one in cell.values.items() if path != SEED} for cell in cells]
    rows = [row["values"] for row in kept["rows"] for _ in range(row["seeds"])]
    assert rows == asked
    assert kept["statuses"] == {"succeeded": len(cells)}


def test_the_page_shows_every_picture_of_what_is_kept() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {*tables(ROOT / KEPT)} == {"played", *(path.stem for path in PLAYED)}
    pictures = drawn_figures(ROOT / KEPT)
    stored = {path.stem: path.read_text() for path in PAGE.parent.glob("figures/*.svg")}
    assert stored == pictures
    assert [name for name in pictures if f"(figures/{name}.svg)" not in page] == []
