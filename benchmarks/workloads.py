"""The published tasks as specs (Galli et al., section 5), with what a benchmark varies."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell

HOSPITAL_FILE = "hospital_charges/four_conditions.csv.gz"


def synthetic_linear(
    *,
    seed: int,
    hypotheses: int = 2,
    noise_multiplier: float | None = 5.0,
    clustering: dict[str, str] | None = None,
    loss: str = "rmse",
    rounds: int = 1_000_000,
    patience: int | None = None,
) -> ExperimentSpec:
    """Section 5.1: two linear distributions, 100 clients to train, 7 of them a round."""
    return parse_spec(
        {
            "name": f"synthetic-linear-{seed}",
            "seed": seed,
            "federation": {
                "source": "synthetic-linear",
                "clients": 200,
                "rows_per_client": 10,
                "thetas": [[5, 6], [4, -4.5]],
                "validation_fraction": 0.5,
            },
            "model": {"kind": "linear", "intercept": False},
            "training": {
                "loss": loss,
                "hypotheses": hypotheses,
                "rounds": rounds,
                "cohort": {"clients": 7},
                "local": {"epochs": 1, "batch_size": 10, "step_size": 0.1},
                "clustering": clustering or {"method": "k-means", "empty_cluster": "keep"},
                "stopping": {"patience": patience},
            },
            "privacy": privacy(noise_multiplier),
        }
    )


def hospital_charges(
    *,
    seed: int,
    hypotheses: int = 5,
    noise_multiplier: float | None = 3.0,
    client_key: str = "provider_id",
    empty_cluster: str = "relocate",
    rounds: int = 1_000_000,
    patience: int | None = None,
    by_state: bool = True,
) -> ExperimentSpec:
    """Section 5.2: payments by condition and place, 100 clients a round, 200 to validate."""
    fairness = {"sensitive": ["state"], "favourable": {"op": "le", "value": 7000}}
    return parse_spec(
        {
            "name": f"hospital-charges-{seed}",
            "seed": seed,
            "federation": {
                "source": "hospital-charges",
                "path": HOSPITAL_FILE,
                "client_key": client_key,
            },
            "model": {"kind": "mlp", "hidden": [2]},
            "training": {
                "loss": "rmse",
                "hypotheses": hypotheses,
                "rounds": rounds,
                "cohort": {"clients": 100},
                "local": {"epochs": 1, "step_size": 0.1},
                "clustering": {"method": "k-means", "empty_cluster": empty_cluster},
                "stopping": {"patience": patience, "validation_clients": 200},
            },
            "privacy": privacy(noise_multiplier),
            "fairness": fairness if by_state else {},
        }
    )


def synthetic_groups(
    *,
    seed: int,
    hypotheses: int,
    noise_multiplier: float | None,
    cohort: int = 70,
    independent_attribute: bool = False,
    one_rule: bool = False,
    rounds: int = 1_000_000,
    patience: int | None = None,
) -> ExperimentSpec:
    """SN Computer Science 2023: 800 clients of one distribution, 200 of another.

    Each group has its own favourable outcome, unless `one_rule` holds for both.
    """
    rules = [("g1", "ge", 0), ("g2", "ge", 0) if one_rule else ("g2", "le", 15)]
    return parse_spec(
        {
            "name": f"synthetic-groups-{seed}",
            "seed": seed,
            "federation": {
                "source": "synthetic-groups",
                "independent_attribute": independent_attribute,
            },
            "model": {"kind": "linear", "intercept": True},
            "training": {
                "loss": "rmse",
                "hypotheses": hypotheses,
                "rounds": rounds,
                "cohort": {"clients": cohort},
                "local": {"epochs": 1, "step_size": 0.1},
                "clustering": {"method": "k-means", "empty_cluster": "keep"},
                "stopping": {"patience": patience},
            },
            "privacy": privacy(noise_multiplier),
            "fairness": {
                "sensitive": ["group"],
                "favourable": [
                    {"group": {"group": group}, "op": op, "value": value}
                    for group, op, value in rules
                ],
            },
        }
    )


def privacy(noise_multiplier: float | None) -> dict[str, Any]:
    """Algorithm 2 with this noise multiplier, or no mechanism."""
    if noise_multiplier is None:
        return {"mechanism": "none"}
    return {"mechanism": "laplace-l2", "noise_multiplier": noise_multiplier}


def cells(specs: Iterable[ExperimentSpec], *, data: Path | None = None) -> list[Cell]:
    """The specs with their data; equal data sets are loaded once."""
    loaded: dict[str, Federation] = {}
    found = []
    for spec in specs:
        # Synthetic data are drawn with the seed, a file is the same for every seed.
        seed = spec.seed if spec.federation.traits.draws_data else None
        key = f"{seed} {spec.federation.model_dump_json()} {spec.fairness.model_dump_json()}"
        if key not in loaded:
            loaded[key] = load_federation(spec, sources_dir=data)
        found.append(Cell(spec, loaded[key]))
    return found


def missing_hospital_data(data: Path) -> str | None:
    """Why the hospital task cannot run, or None."""
    path = data / HOSPITAL_FILE
    return None if path.is_file() else f"{path} is not there; name its folder with --data"
