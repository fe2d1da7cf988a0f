"""The sweeps of the papers' tables and figures: they can be asked for, and the docs say what came
of each."""

import re
from pathlib import Path

import pytest

from benchmarks.reproductions.drawn_figures import drawn_figures
from benchmarks.reproductions.kept_sweeps import KEPT, read_kept
from benchmarks.reproductions.side_by_side import TABLES, tables
from fedaudit.federations.load import load_federation
from fedaudit.runs.experiment_plan import plan_experiment
from fedaudit.spec.parse import decode_text, parse_spec
from fedaudit.spec.sweeps import SEED, expand, parse_cells, parse_sweep
from fedaudit.sweeps.sweep_costs import sweep_facts

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
