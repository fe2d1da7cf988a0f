"""A training beside the run, of the same spec, in which canaries take part, and its report."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.attack import AttackOutcome, Progress
from fedaudit.attacks.attack_files import csv_table
from fedaudit.attacks.canaries.canary_pool import CanaryPool
from fedaudit.attacks.canaries.planted_canaries import CanarySet
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.reports.document.attacks.canaries_section import CanariesSection
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spreadsheet import plain_text
from fedaudit.training.base.cell import Cell
from fedaudit.training.trainer_choice import open_stack

ROUNDS_AT_ONCE = 16
COMPANION = (
    "The canaries took part in a companion training of the same spec, with the same sampling, "
    "clip, sums and noise as all others. The run itself was not touched, nor any loss, count or "
    "figure of its utility: what is tested is the mechanism and its code with this spec, in a "
    "training beside the run, and not the releases of the run itself. Nothing is charged for it, "
    "and no guarantee covers its results: they are confidential."
)
_SEEN: dict[Observer, str] = {
    "final_model": "Sees the released hypotheses of every round, and not who took part.",
    "server": "Sees every upload, and who sent it.",
}


def companion_of(cell: Cell) -> Cell:
    """The cell with all of its rounds and a single validation at the end.

    No loss may end it before its last round, since the claim covers all rounds. The seed stays,
    since it decides who trains and with which budgets; with `release` no noise is drawn from it.
    """
    training = cell.spec.training
    stopping = training.stopping.model_copy(
        update={"patience": None, "validate_every": training.rounds, "validation_clients": 1}
    )
    whole = training.model_copy(update={"stopping": stopping})
    return replace(cell, spec=cell.spec.model_copy(update={"training": whole}))


def train(cell: Cell, *, device: str, progress: Progress) -> None:
    """Trains the cell to its end."""
    trainer, rounds, played = open_stack([cell], device=device), cell.spec.training.rounds, 0
    progress(0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        while trainer.active:
            trainer.plan(ROUNDS_AT_ONCE)
            played += len(trainer.advance(ROUNDS_AT_ONCE)[0])
            progress(min(1.0, played / rounds))


def canaries_outcome(
    spec: CanariesSpec,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    *,
    statement: str,
    observer: Observer,
    releases: NDArray[np.int64],
    scores: NDArray[np.float64],
    guesses: NDArray[np.int8],
    fields: dict[str, Any],
) -> AttackOutcome:
    """What canaries of a companion show: a section with `fields`, and the table of scores.

    `releases`, `scores` and `guesses` [canaries]; a guess is 1 for present, -1 for absent, 0 for
    none.
    """
    section = CanariesSection(
        status="done",
        reason=None,
        statement=f"{statement} {COMPANION}",
        capabilities=capabilities(observer, by_record=pool.rows is not None),
        unit=spec.unit,
        count=spec.count,
        included=int(canaries.coins.sum()),
        observer=observer,
        **fields,
    )
    scores_table = csv_table(
        {
            "canary": number,
            "client": plain_text(cell.federation.client_names[client]),
            "row": "" if pool.rows is None else pool.rows[number],
            "present": int(canaries.coins[number]),
            "releases": releases[number],
            "score": scores[number],
            "guess": guesses[number],
        }
        for number, client in enumerate(pool.clients)
    )
    return AttackOutcome(section, {"scores.csv": scores_table})


def capabilities(observer: Observer, *, by_record: bool) -> list[str]:
    """What this attacker knows and may do."""
    return [
        "Knows everything but the coins of the canaries, as the adversary of the definition does.",
        "Chooses what a canary sends before it is clipped.",
        _SEEN[observer],
        *["Sees every local step of the canaries' clients (white box)."] * by_record,
    ]
