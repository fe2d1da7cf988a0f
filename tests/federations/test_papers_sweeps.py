"""The sweeps of the papers' tables and figures: they can be asked for, and the docs say what came
of each."""

import re
from pathlib import Path

import pytest

from benchmarks.reproductions.side_by_side import TABLES
from fedaudit.federations.load import load_federation
from fedaudit.runs.experiment_plan import plan_experiment
from fedaudit.spec.parse import decode_text, parse_spec
from fedaudit.spec.sweeps.sweep_cells import parse_cells
from fedaudit.spec.sweeps.sweep_spec import parse_sweep
from fedaudit.sweeps.sweep_facts import sweep_facts

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples" / "papers").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sweep_can_be_asked_for_and_its_costs_projected(
    path: Path, request: pytest.FixtureRequest
) -> None:
    text = path.read_text(encoding="utf-8")
    asked = parse_sweep(decode_text(text))
    cells = parse_cells(asked, parse_spec)
    stated = re.search(r"(\d+)\s*(?:# )?cells", text)
    assert asked.name == path.stem
    assert stated is not None
    assert int(stated[1]) == len(cells) == asked.cells
    first, last = cells[0][1], cells[-1][1]
    if first.federation.traits.files:
        sources = request.getfixturevalue("shared_data")
        if not all((sources / file).is_file() for file in first.federation.traits.files):
            pytest.skip(f"{first.federation.traits.files} are not among the real data at hand")
    else:
        sources = None
    planned = [
        plan_experiment(spec, load_federation(spec, sources_dir=sources)) for spec in (first, last)
    ]
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
    documentation = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert set(TABLES) == set(stems)
    assert [stem for stem in stems if f"{stem}.yaml" not in documentation] == []
