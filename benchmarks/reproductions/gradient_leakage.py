"""Images reconstructed from updates, after Galli et al., section 5.3, on UNIPEN handwriting.

    OMP_NUM_THREADS=1 python -m benchmarks.reproductions.gradient_leakage --data DATA \
        --network dense --attack lbfgs --out FOLDER

The paper's network with sigmoids (`paper`) and a fully connected one (`dense`), at the hypothesis
that training starts from. UNIPEN replaces FEMNIST and is not FEMNIST. Figures and pictures go
to a folder by the names of network and attack; `--table` prints all that lie there.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.handwriting_runs import UNIPEN_FILE
from benchmarks.reproductions.runs import table
from fedaudit.attacks.attack import AttackedRun
from fedaudit.attacks.gradient_leakage.gradient_leakage_attack import attack_gradient_leakage
from fedaudit.federations.load import load_federation
from fedaudit.runs.run import new_run
from fedaudit.spec.attacks import GradientLeakageSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell, first_hypotheses
from fedaudit.training.base.rounds import FinalResult

_SIGMOID = {"kind": "sigmoid"}
NETWORKS: dict[str, dict[str, Any]] = {
    "paper": {
        "kind": "layers",
        "input": [28, 28, 1],
        "layers": [
            {"kind": "convolution", "filters": 32, "size": 3},
            _SIGMOID,
            {"kind": "convolution", "filters": 64, "size": 3},
            {"kind": "average-pooling", "size": 2},
            _SIGMOID,
            {"kind": "flatten"},
            {"kind": "dense", "units": 128},
            _SIGMOID,
        ],
    },
    "dense": {"kind": "layers", "layers": [{"kind": "dense", "units": 100}, _SIGMOID]},
}
_DLG = {"method": "lbfgs", "label": "optimised", "per_layer": True}
_IDLG = {"method": "lbfgs", "label": "inferred", "per_layer": True}
_COSINE = {"method": "adam-cosine", "per_layer": True}
ATTACKS: dict[str, dict[str, Any]] = {
    "dlg": _DLG,
    "idlg": _IDLG,
    "idlg-whole-vector": {**_IDLG, "per_layer": False},
    "cosine": _COSINE,
    "features": {"method": "features", "per_layer": True},
    "features-whole-vector": {"method": "features", "per_layer": False},
    "first-layer": {"method": "first-layer", "per_layer": True},
    "first-layer-whole-vector": {"method": "first-layer", "per_layer": False},
}


def handwriting_cell(network: str, *, data: Path, noise_multiplier: float = 1.0) -> Cell:
    """The handwriting task with one of the networks."""
    spec = parse_spec(
        {
            "name": f"handwriting-{network}",
            "seed": 1,
            "federation": {"source": "images", "path": UNIPEN_FILE, "classes": 62},
            "model": NETWORKS[network],
            "training": {
                "loss": "cross-entropy",
                "rounds": 1,
                "cohort": {"clients": 10},
                "local": {"steps": 1, "step_size": 0.1},
            },
            "privacy": {"mechanism": "laplace-l2", "noise_multiplier": noise_multiplier},
        }
    )
    return Cell(spec, load_federation(spec, sources_dir=data))


def untrained(cell: Cell) -> AttackedRun:
    """A run that has trained nothing: an attack on the first hypotheses asks no more of it."""
    run = new_run(cell, experiment_id="0" * 32, started_at=datetime.now(UTC))
    result = FinalResult(
        stopped_by="rounds",
        rounds=0,
        best_round=0,
        hypotheses=first_hypotheses(cell),
        selection_loss=np.nan,
        validation_loss=np.nan,
        accuracy=None,
        fairness={},
        single_row_clients=0,
        collapsed_rounds=0,
    )
    return AttackedRun(run, result, "cpu")


def main() -> None:
    """Runs one attack on one network, or prints what is in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--network", choices=NETWORKS, default="dense")
    parser.add_argument("--attack", choices=ATTACKS, default="idlg")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--noise-multipliers", type=float, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        print(_tables(asked.out))
        return
    changes = {"images": asked.images, "iterations": asked.iterations}
    if asked.noise_multipliers:
        changes["noise_multipliers"] = asked.noise_multipliers
    spec = GradientLeakageSpec(**ATTACKS[asked.attack], **changes)
    attacked = untrained(handwriting_cell(asked.network, data=asked.data))
    before = time.process_time()
    outcome = attack_gradient_leakage(spec, attacked, progress=lambda _: None)
    seconds = time.process_time() - before
    name = f"{asked.network}-{asked.attack}"
    asked.out.mkdir(parents=True, exist_ok=True)
    for file, content in outcome.files.items():
        (asked.out / f"{name}-{file}").write_bytes(content)
    found = {
        "network": asked.network,
        "attack": asked.attack,
        "processor_seconds": round(seconds, 1),
        "section": outcome.section.model_dump(mode="json"),
    }
    (asked.out / f"{name}.json").write_text(json.dumps(found, indent=1))
    print(_tables(asked.out, name=name))


def _tables(folder: Path, *, name: str = "*") -> str:
    lines = []
    for file in sorted(folder.glob(f"{name}.json")):
        found = json.loads(file.read_text())
        section = found["section"]
        for result in section["results"]:
            interval = result["recovered_interval"]
            label = result["label_share"]
            lines.append(
                [
                    found["network"],
                    found["attack"],
                    str(section["iterations"]),
                    f"{result['noise_multiplier']:g}",
                    f"{result['mse']:.2g}",
                    "infinite" if result["psnr"] is None else f"{result['psnr']:.1f}",
                    f"{result['ssim']:.2f}",
                    f"{result['recovered_share']:.2f} ({interval['low']:.2f} to "
                    f"{interval['high']:.2f})",
                    f"{result['better_share']:.2f}",
                    "" if label is None else f"{label:.2f}",
                ]
            )
    return table(
        ["network", "attack", "steps", "nu", "MSE", "PSNR", "SSIM", "recovered", "better", "label"],
        lines,
    )


if __name__ == "__main__":
    main()
