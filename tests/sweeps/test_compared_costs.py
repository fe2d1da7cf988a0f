"""Costs are compared between rows only where they mean the same."""

import pytest

from fedaudit.sweeps.sweep_table import OTHER_TERMS, CellFigures, SweepTable, sweep_table


def table(*terms: dict[str, str]) -> SweepTable:
    """Two rows of three seeds, the first of which costs and errs less beyond doubt."""
    return sweep_table(
        [
            CellFigures(
                experiment_id=f"{row}-{seed}",
                values={"privacy.delta": row, "seed": seed},
                succeeded=True,
                degenerate=False,
                figures={"epsilon_max": 1 + row + seed / 100, "validation_loss": 5 + row},
                cost_terms=terms[row],
            )
            for row in (0, 1)
            for seed in range(3)
        ]
    )


SMALL, LARGE = {"epsilon": "server, delta 1e-9"}, {"epsilon": "server, delta 0.01"}


def test_the_same_terms_have_a_best_row() -> None:
    found = table(SMALL, SMALL)
    assert found["rows"][0]["figures"]["epsilon_max"]["best"]
    assert found["front_figures"] == ["epsilon_max", "validation_loss"]
    assert OTHER_TERMS not in found["notes"]


@pytest.mark.parametrize("other", [LARGE, {}, {"leakage": "radius 0.5"}])
def test_other_terms_have_none(other: dict[str, str]) -> None:
    found = table(SMALL, other)
    assert not any(row["figures"]["epsilon_max"]["best"] for row in found["rows"])
    assert found["rows"][0]["figures"]["validation_loss"]["best"]
    assert found["front_figures"] == ["validation_loss"]
    assert OTHER_TERMS in found["notes"]


def test_figures_of_the_people_held_out_have_no_better_end() -> None:
    cells = [
        CellFigures(
            experiment_id=f"{row}-{seed}",
            values={"x": row, "seed": seed},
            succeeded=True,
            degenerate=False,
            figures=dict.fromkeys(("baseline_loss", "baseline_accuracy", "rounds"), row),
            cost_terms=SMALL,
        )
        for row in (0.0, 1.0)
        for seed in range(2)
    ]
    rows = sweep_table(cells)["rows"]
    assert not any(one["best"] for row in rows for one in row["figures"].values())
