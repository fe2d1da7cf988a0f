"""Shadow runs of the hospital task as one stack: seconds, and what the run alone takes.

OMP_NUM_THREADS=1 python -m benchmarks.shadow_runs --data ../shared/data
"""

import argparse
import resource
import time
from pathlib import Path

import torch

from benchmarks.workloads import cells, hospital_charges, missing_hospital_data
from fedaudit.attacks.membership.attacked_rows import choose_rows
from fedaudit.attacks.membership.shadow_design import draw_shadows
from fedaudit.attacks.membership.shadow_runs import STACK_BYTES, observe_shadows
from fedaudit.randomness import CounterSource
from fedaudit.training.stack_key import cells_at_once


def main() -> None:
    """Prints one line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--shadows", type=int, default=256)
    arguments.add_argument("--rounds", type=int, default=500)
    arguments.add_argument("--patience", type=int)
    given = arguments.parse_args()
    why = missing_hospital_data(given.data)
    if why is not None:
        raise SystemExit(why)
    spec = hospital_charges(seed=1, rounds=given.rounds, patience=given.patience)
    [cell] = cells([spec], data=given.data)
    source = CounterSource(spec.seed)
    rows = choose_rows(cell, source, models=given.shadows)
    began, used = time.perf_counter(), time.process_time()
    shadows, trained = draw_shadows(cell, rows, source, shadows=given.shadows, least=16)
    observe_shadows(shadows, trained, rows, device="cpu", progress=lambda _: None)
    elapsed, processor = time.perf_counter() - began, time.process_time() - used
    stacks = -(-given.shadows // cells_at_once(shadows[0], memory_bytes=STACK_BYTES))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{given.shadows} shadow runs of at most {given.rounds} rounds in {stacks} stack(s), "
        f"{len(rows)} rows looked at, {torch.get_num_threads()} thread(s): {elapsed:.0f} s, "
        f"{processor:.0f} s of the processor, {memory:.0f} MiB at most"
    )


if __name__ == "__main__":
    main()
