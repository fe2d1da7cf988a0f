"""Replays a spec with a neighbouring federation, and says where a run leaves its guarantee."""

from dataclasses import replace
from pathlib import Path

from fedaudit.attacks.replay.accounting_replay import check_accounting
from fedaudit.attacks.replay.bounded_contributions import check_contributions
from fedaudit.attacks.replay.loaded_neighbour import check_loading
from fedaudit.attacks.replay.neighbour_pair import neighbour_pair
from fedaudit.attacks.replay.new_noise import (
    check_never_twice,
    check_secrecy,
    check_seeds_apart,
    check_words,
    simulated,
)
from fedaudit.attacks.replay.noise_of_sums import check_noise_of_server, check_noise_of_steps
from fedaudit.attacks.replay.noise_of_uploads import check_noise_of_uploads
from fedaudit.attacks.replay.probed_noise import check_law
from fedaudit.attacks.replay.released_values import check_release
from fedaudit.attacks.replay.replay_finding import DEFAULT_ROUNDS, Findings, ReplayReport
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.attacks.replay.sampling_replay import check_sampling
from fedaudit.attacks.replay.watched_run import WatchedRun, play
from fedaudit.federations.load import load_federation
from fedaudit.ledger.rows import Outcome
from fedaudit.runs.experiment_plan import OpenArtifact, no_artifacts, with_start
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

    Raises InvalidInputError where the spec does not fit its data.
    """
    federation = load_federation(spec, sources_dir=sources_dir)
    findings = Findings()
    check_loading(Cell(spec, federation), findings, sources_dir=sources_dir)
    cell = with_start(Cell(spec, federation), open_artifact)
    return replay_cell(cell, rounds=rounds, findings=findings)


def replay_cell(
    cell: Cell, *, rounds: int = DEFAULT_ROUNDS, findings: Findings | None = None
) -> ReplayReport:
    """As `replay`, of data that are loaded. `findings`: of how they were."""
    findings = findings or Findings()
    if draws_in_secret(cell):
        check_secrecy(cell, findings)
        # Coins and noise that are the same in both runs are drawn from the seed, by the same code.
        cell = simulated(cell)
    cell = _without_noised_rounds(cell)
    rounds = min(rounds, cell.spec.training.rounds)
    pair = neighbour_pair(cell, cell_ledger_context(cell), rounds=rounds)
    base = play(pair.base, rounds=rounds)
    _note_silent(base)
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
    _check_noise(replayed, findings)
    if replayed.charged.noise_multiplier is not None or replayed.base.passed.steps:
        check_law(replayed, findings)
    quiet = play(pair.quiet, rounds=min(rounds, _QUIET_ROUNDS))
    _note_silent(quiet)
    short = Replayed(pair=pair, base=quiet, neighbour=quiet, held_out=quiet)
    check_contributions(short, findings)
    # Beside short sums, another divisor cannot be distinguished from other noise.
    if not findings.found("release", "divisor of sums"):
        _check_noise(short, findings)
    unprotected = check_release(replayed, findings)
    check_accounting(replayed, findings)
    return ReplayReport(
        findings=findings.decide(),
        mechanism=cell.spec.privacy.mechanism,
        neighbours=pair.words,
        rounds=base.rounds,
        checks=findings.checks,
        unprotected=unprotected,
        tests=findings.tests,
    )


def _check_noise(replayed: Replayed, findings: Findings) -> None:
    if replayed.role == "server":
        check_noise_of_server(replayed, findings)
    elif replayed.role == "local-steps":
        check_noise_of_steps(replayed, findings)
    else:
        check_noise_of_uploads(replayed, findings)


def _without_noised_rounds(cell: Cell) -> Cell:
    """The cell with the gaps of rounds withheld: noise on counts of held-out people is none of the
    mechanism's, and is not tested here."""
    noise = cell.spec.fairness.noise
    if noise is None or not noise.rounds:
        return cell
    fairness = cell.spec.fairness.model_copy(
        update={"noise": noise.model_copy(update={"rounds": False})}
    )
    return replace(cell, spec=cell.spec.model_copy(update={"fairness": fairness}))


def _note_silent(base: WatchedRun) -> None:
    """Notes which uploads of each round the ledger charges nobody for."""
    for record in base.records:
        parts = base.passed.uploads.get(record.round, [])
        if len(parts) == 1 and len(parts[0].uploads) == len(record.subjects):
            base.passed.silent[record.round] = record.outcomes != Outcome.RELEASED
