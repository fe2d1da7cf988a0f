"""The example specs, and real data where they are at hand."""

import re
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


def hospital(folder: Path, **federation: object) -> Federation:
    value = {
        "name": "real",
        "federation": {"source": "hospital-charges", **federation},
        "model": {"kind": "mlp", "hidden": [2]},
        "training": {"loss": "rmse", "rounds": 1, "cohort": {"clients": 100}},
        "privacy": {"mechanism": "none"},
    }
    return load_federation(parse_spec(value), sources_dir=folder)


@pytest.mark.parametrize(("key", "clients"), [("zip", 2948), ("provider_id", 3151)])
def test_the_whole_hospital_file_and_the_derived_one_agree(data_dir, key, clients):
    own = "hospital_charges/four_conditions.csv.gz"
    derived = hospital(data_dir, path=own, client_key=key)
    published = "hospital_charges/ipps_fy2011_top100_drg.csv.gz"
    zips = "zip_codes/us_zip_lat_lon.csv.gz"
    whole = hospital(data_dir, path=published, zip_table=zips, client_key=key)
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
