"""Replays a spec with a neighbouring federation, and reports where a run leaves its guarantee."""

from dataclasses import replace
from pathlib import Path

from fedaudit.attacks.replay.accounting_replay import check_accounting
from fedaudit.attacks.replay.neighbours import Replayed, check_loading, neighbour_pair
from fedaudit.attacks.replay.noise_laws import (
    check_never_twice,
    check_secrecy,
    check_seeds_apart,
    check_words,
)
from fedaudit.attacks.replay.noise_replay import check_law, check_noise
from fedaudit.attacks.replay.replay_finding import DEFAULT_ROUNDS, Findings, ReplayReport
from fedaudit.attacks.replay.round_replay import check_contributions, check_release, check_sampling
from fedaudit.attacks.replay.watched_run import WatchedRun, play
from fedaudit.federations.load import load_federation
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.experiment_plan import OpenArtifact, no_artifacts, with_solved_noise, with_start
from fedaudit.runs.run import cell_ledger_context
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.stacked.stack_round import build_draws

_QUIET_ROUNDS = 4
"""Rounds that are played with short updates."""


def replay(
    spec: ExperimentSpec,
    *,
    sources_dir: Path | None = None,
    rounds: int = DEFAULT_ROUNDS,
    open_artifact: OpenArtifact = no_artifacts,
) -> ReplayReport:
    """Replays at most `rounds` rounds of a spec over its own data.

    Raises InvalidInputError if the spec does not fit its data.
    """
    federation = load_federation(spec, sources_dir=sources_dir)
    cell, findings = Cell(with_solved_noise(spec, federation), federation), Findings()
    check_loading(cell, findings, sources_dir=sources_dir)
    return replay_cell(with_start(cell, open_artifact), rounds=rounds, findings=findings)


def replay_cell(
    cell: Cell, *, rounds: int = DEFAULT_ROUNDS, findings: Findings | None = None
) -> ReplayReport:
    """Do what `replay` does with loaded data. `findings`: those of loading them."""
    findings, spec = findings or Findings(), cell.spec
    if draws_in_secret(cell):
        check_secrecy(cell, findings)
        # Coins and noise that are the same in both runs are drawn from the seed, by the same code.
        simulated = spec.privacy.model_copy(update={"noise": "simulation"})
        spec = spec.model_copy(update={"privacy": simulated})
    cell, rounds = replace(cell, spec=spec), min(rounds, spec.training.rounds)
    pair = neighbour_pair(cell, cell_ledger_context(cell), rounds=rounds)
    base = _noting_silent(play(pair.base, rounds=rounds))
    replayed = Replayed(
        pair=pair,
        base=base,
        neighbour=play(pair.neighbour, rounds=rounds, follow=base.passed),
        held_out=play(pair.held_out, rounds=rounds, follow=base.passed),
    )
    check_sampling(replayed, findings)
    check_contributions(replayed, findings)
    check_never_twice(replayed, findings)
    check_seeds_apart(replayed, findings)
    check_words(build_draws([cell]).source(), findings)
    check_noise(replayed, findings)
    if mechanism_of(spec).facts.noise_law != "none":
        check_law(replayed, findings)
    quiet = _noting_silent(play(pair.quiet, rounds=min(rounds, _QUIET_ROUNDS)))
    short = Replayed(pair=pair, base=quiet, neighbour=quiet, held_out=quiet)
    check_contributions(short, findings)
    # Beside short sums, another divisor cannot be distinguished from other noise.
    if not findings.found.get(("release", "divisor of sums")):
        check_noise(short, findings)
    unprotected = check_release(replayed, findings)
    check_accounting(replayed, findings)
    return ReplayReport(
        findings=findings.decide(),
        mechanism=spec.privacy.mechanism,
        neighbours=pair.words,
        rounds=base.rounds,
        checks=findings.checks,
        unprotected=unprotected,
        tests=findings.tests,
    )


def _noting_silent(base: WatchedRun) -> WatchedRun:
    """Notes which uploads of each round the ledger charges no one for."""
    for round_, columns in enumerate(base.columns, start=1):
        parts, outcomes = base.passed.uploads.get(round_, []), columns.outcomes[0]
        if len(parts) == 1 and len(parts[0].uploads) == len(outcomes):
            base.passed.silent[round_] = outcomes != Outcome.RELEASED
    return base
