"""What a block of rounds leaves, and where it goes: ledger entries, figures, published counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np

from fedaudit.arrays import Floats, Ints, Ints32, finite
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import Figure, gaps, gaps_between, scored_rows
from fedaudit.fairness.noised_counts import (
    ExactCounts,
    NoisedCounts,
    PublishedCounts,
    Rounder,
    bounded_counts,
)
from fedaudit.ledger.columns import EntryColumns, columns_of_rows, ledger_columns
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.count_release import CountRelease, IntegerDraws, drawn_integers
from fedaudit.privacy.leakage import ClusterLeakage
from fedaudit.privacy.mechanisms.registry import why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE
from fedaudit.randomness import CounterSource, EntropySource, Purpose, Source
from fedaudit.reports.charts.report_charts import Series, drawn_rounds, series_of
from fedaudit.reports.sections.fairness import WITHHELD
from fedaudit.runs.ledger_writer import RecordedRounds
from fedaudit.runs.run import Run
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.metrics import METRICS, ROUND_METRICS
from fedaudit.stored import FairnessRow, LedgerRow, RoundRow
from fedaudit.training.base.rounds import FinalResult, PlayedRounds, RoundColumns

_REPORT = 0
"""The round under which the report's noise is drawn, before the first of training."""
_SEED_WORDS = 4


def publish_counts(run: Run, result: FinalResult) -> PublishedCounts:
    """The counts for the report; noise is drawn anew with each call where it is secret.

    Raises RuntimeError where the ledger was not charged for it.
    """
    held_out = run.ledger.ledger_context.held_out
    if held_out is None:
        return run.rounder or ExactCounts()
    if not run.ledger.report_charged:
        raise RuntimeError("the held-out people must be charged before noise is drawn for them")
    if run.spec.hides_counts:
        return noised_counts(held_out.release, result.fairness, EntropySource(), round_=_REPORT)
    # All rows count: some that were drawn would be a set that no memory of disclosures knows.
    release, source = replace(held_out.release, unit="record"), CounterSource(run.spec.seed)
    return noised_counts(release, result.fairness, source, round_=_REPORT)


def noised_counts(
    release: CountRelease, client_counts: Mapping[str, Ints], source: Source, *, round_: int
) -> NoisedCounts:
    """Counts with noise from `source`, one draw for every count.

    `client_counts`: attribute -> [clients, groups, 4]; with the unit `record` all clients may
    be one. `round_`: whose counts they are, since each release has its own noise.
    """
    draws = IntegerDraws(source, purpose=Purpose.COUNT_NOISE, round_=round_)
    counts = {}
    for place, (attribute, of_clients) in enumerate(client_counts.items()):
        # Pooled, with no more rows of a unit than the noise covers.
        match release.unit:
            case "record":
                bounded: Ints = of_clients.sum(axis=0)
            case "client":
                words = source.words(
                    purpose=Purpose.COUNTED_ROWS, round_=round_, counters=place, count=_SEED_WORDS
                )
                generator = np.random.default_rng(words.tolist())
                bounded = bounded_counts(of_clients, max_rows=release.max_rows, generator=generator)
            case _:
                assert_never(release.unit)
        noise = drawn_integers(
            draws, shape=bounded.shape, scale=release.scale, gaussian=release.is_gaussian
        )
        counts[attribute] = bounded + noise
    return NoisedCounts(
        counts=counts,
        deviation=release.deviation,
        tail=release.mechanism,
        max_rows=release.max_rows,
    )


def fairness_of_rounds(
    spec: ExperimentSpec,
    disclosures: Mapping[str, Disclosure],
    played: RoundColumns,
    *,
    rounder: Rounder | None = None,
) -> list[FairnessRow]:
    """The figures of each round that was validated, attribute after attribute.

    `disclosures`: of each attribute, [validated rounds, groups], decided from the rows that the
    rounds score; ValueError where a round scored others. `rounder`: where the counts behind the
    figures are rounded; those kept beside them, confidential, are exact.
    """
    validated = played.validated
    rounds, pooled = played.round[validated].tolist(), played.pooled(validated)
    found: list[FairnessRow] = []
    for attribute, disclosure in disclosures.items():
        counts = pooled[attribute]
        if spec.fairness.noise is not None:
            withheld = [Figure(metric, None, WITHHELD) for metric in METRICS]
            gaps_of_rounds = [withheld] * len(counts)
        elif rounder is None or not disclosure.rule.has_favourable_outcome:
            gaps_of_rounds = gaps(counts, disclosure)
        else:
            # Exact counts decide which groups are shown, and rounded ones what is shown of them.
            disclosure.check(scored_rows(counts))
            rounded = rounder.counts(attribute, counts)
            shown, reference = disclosure.shown, disclosure.reference
            rows = scored_rows(rounded)
            gaps_of_rounds = gaps_between(rounded, shown, reference=reference, rows=rows)
        if not spec.declares_outcome:
            counts = counts[:, :0]  # nothing was counted, which is not the same as no rows
        found += [
            FairnessRow(
                round=round_,
                attribute=attribute,
                figures=[figure._asdict() for figure in figures],
                counts=counted,
            )
            for round_, figures, counted in zip(rounds, gaps_of_rounds, counts, strict=True)
        ]
    return found


_OF_HELD_OUT = ("selection_loss", "validation_loss", "accuracy")
_NOT_VALIDATED = "this round was not validated"
_NOT_FINITE = "the loss is not finite"
_NO_ACCURACY = "the target is a number, so there is no accuracy"
_NO_ATTRIBUTE = "fairness.sensitive names no attribute"
_SEVERAL = "fairness.sensitive names several attributes; see the fairness of the round"


def figures_of_rounds(
    run: Run,
    played: RoundColumns,
    recorded: RecordedRounds,
    fairness: Sequence[FairnessRow],
    *,
    by_cluster: Sequence[Sequence[ClusterLeakage]] | None,
) -> list[RoundRow]:
    """The figures of rounds that the run's ledger has `recorded`.

    `fairness`: of each attribute in those that were validated; `by_cluster`: by round, None where
    the cost is no leakage.
    """
    inputs, groups = run.ledger.inputs, list(run.groups)
    of_attribute = {one.round: one for one in fairness} if len(groups) == 1 else {}
    validated = played.round[played.validated].tolist()
    withheld = run.rounds_withheld(validated)
    if run.spec.fairness.noise is not None:
        # Everyone who was validated is protected, whatever was measured.
        withheld = dict.fromkeys(validated, WITHHELD)
    sizes, separated = played.cluster_sizes.tolist(), played.separation.tolist()
    most, leakages = recorded.most.tolist(), [(None, None)] * len(played)
    if inputs.cost_kind == "leakage":
        leakages = inputs.leakages(np.stack([recorded.median, recorded.most], axis=1)).tolist()
    columns = zip(
        played.round.tolist(), played.place.tolist(), played.collapsed.tolist(), strict=True
    )
    found = []
    for at, (round_, place, collapsed) in enumerate(columns):
        reasons: dict[str, str] = {}
        values: dict[str, float | None] = {
            "selection_loss": _at(played.selection_losses, place),
            "validation_loss": _at(played.validation_losses, place),
            "accuracy": _at(played.accuracies, place),
            "separation": finite(separated[at]),
            "leakage_median": leakages[at][0],
            "leakage_max": leakages[at][1],
            "epsilon_max": run.ledger.largest_epsilon(most[at]),
        }
        values |= _gaps_of_round(groups, of_attribute.get(round_), reasons)
        if round_ in withheld:
            values |= dict.fromkeys(_OF_HELD_OUT)
            reasons |= dict.fromkeys(_OF_HELD_OUT, withheld[round_])
        if by_cluster is None:
            reasons["leakage_by_cluster"] = _why_no_cost(inputs)
        for name, value in values.items():
            if value is None and name not in reasons:
                reasons[name] = _why_missing(name, place, inputs)
        found.append(
            RoundRow(
                round=round_,
                cluster_sizes=tuple(sizes[at]),
                collapsed=collapsed,
                leakage_by_cluster=None if by_cluster is None else by_cluster[at],
                reasons=reasons,
                **values,
            )
        )
    return found


def _gaps_of_round(
    groups: Sequence[str], fairness: FairnessRow | None, reasons: dict[str, str]
) -> dict[str, float | None]:
    """The gaps of the only attribute, where there is just one; reasons go into `reasons`."""
    if fairness is None:
        common = _NOT_VALIDATED
        if len(groups) != 1:
            common = _SEVERAL if groups else _NO_ATTRIBUTE
        reasons |= dict.fromkeys(ROUND_METRICS, common)
        return dict.fromkeys(ROUND_METRICS)
    found = {figure["metric"]: figure for figure in fairness.figures}
    reasons |= {name: why for name in ROUND_METRICS if (why := found[name]["reason"])}
    return {name: found[name]["value"] for name in ROUND_METRICS}


def _why_missing(name: str, place: int, inputs: MechanismParameters) -> str:
    if name.startswith(("leakage", "epsilon")):
        return _why_no_cost(inputs)
    if name == "separation":
        return "needs two or more hypotheses, and uploads to compare"
    if place < 0:
        return _NOT_VALIDATED
    return _NO_ACCURACY if name == "accuracy" else _NOT_FINITE


def _why_no_cost(inputs: MechanismParameters) -> str:
    match inputs.cost_kind:
        case "epsilon":
            return NO_LEAKAGE
        case "leakage":
            return NO_EPSILON
        case "unbounded":
            return why_unbounded(inputs)
        case _:
            assert_never(inputs.cost_kind)


def _at(values: Floats | None, place: int) -> float | None:
    """The figure at a place; None where there is none, or none that is finite."""
    return None if values is None or place < 0 else finite(float(values[place]))


_TOGETHER = 1 << 16
"""Charges that are worked out at a time, as far as 128 rounds have fewer; bounds the memory."""


@dataclass(frozen=True)
class Block:
    """Everything that a sink keeps of some rounds of one run."""

    ledger: Sequence[LedgerRow]
    rounds: Sequence[RoundRow]
    fairness: Sequence[FairnessRow]


def record_block(run: Run, played: PlayedRounds, *, last: bool, reported: bool = False) -> Block:
    """What rounds that were played leave behind; moves the run's totals and chain on.

    Rounds that were charged and interrupted stand before their repeat; with the `last` block of a
    run, all that are left. `reported`: with these rounds the run came to its end, and its report
    is made next; the held-out people are charged for it before anything of them is published.
    """
    ledger: list[LedgerRow] = []
    rounds: list[RoundRow] = []
    fairness: list[FairnessRow] = []
    for part in _parts(run, played):
        ledger += _record_interrupted(run, up_to=int(part.round[0]))
        recorded = run.ledger.record_rounds(part)
        ledger += recorded.written
        validated, found = part.validated, []
        if part.counts and len(validated):
            shown = run.disclosures_of(part.round[validated].tolist())
            found = fairness_of_rounds(run.spec, shown, part, rounder=run.rounder)
        fairness += found
        rounds += figures_of_rounds(
            run, part, recorded, found, by_cluster=_follow_clusters(run, part.subjects, recorded)
        )
        run.rounds_done = int(part.round[-1])
    if last:
        ledger += _record_interrupted(run, up_to=None)
    if reported:
        ledger += run.ledger.record_report()
    return Block(ledger, rounds, fairness)


def _parts(run: Run, played: PlayedRounds) -> Iterator[RoundColumns]:
    """The rounds in parts within which nothing else is charged, and everybody for every round."""
    for span in played.spans:
        begin = 0
        while begin < len(span):
            together = max(128, _TOGETHER // max(1, span.subjects.shape[1]))
            end = min(begin + (1 if span.compositions else together), len(span))
            lost = [one.round for one in run.interrupted_rounds if one.round > span.round[begin]]
            if lost:
                end = min(end, int(np.searchsorted(span.round, lost[0])))
            yield span.part(begin, end)
            begin = end


def _record_interrupted(run: Run, *, up_to: int | None) -> list[LedgerRow]:
    """The entries of interrupted rounds; those above `up_to` are left for later."""
    written: list[LedgerRow] = []
    waiting = run.interrupted_rounds
    while waiting and (up_to is None or waiting[0].round <= up_to):
        charged = waiting.pop(0)
        recorded = run.ledger.record_interrupted(charged)
        written += recorded.written
        _follow_clusters(run, charged.subjects[np.newaxis], recorded)
    return written


def _follow_clusters(
    run: Run, subjects: Ints32, recorded: RecordedRounds
) -> list[list[ClusterLeakage]] | None:
    """The leakage of each cluster after each of the rounds; None where the cost is no leakage."""
    if run.by_cluster is None:
        return None
    return run.by_cluster.follow(
        subjects,
        clusters=recorded.clusters,
        releases=recorded.releases,
        price=run.ledger.inputs.leakages,
    )


class MemorySink:
    """What the rounds of a run left behind, without a database."""

    def __init__(self, ledger_context: LedgerContext) -> None:
        """`ledger_context`: that of the run."""
        self._account = ledger_context
        self._ledger: list[LedgerRow] = []
        self.rounds: list[RoundRow] = []
        """The figures of each round."""
        self.fairness: list[FairnessRow] = []
        """Those of each attribute in rounds that were validated. Counts are confidential."""

    def write(self, block: Block) -> None:
        """Keep what the next rounds left behind."""
        self._ledger += block.ledger
        self.rounds += block.rounds
        self.fairness += block.fairness

    def rows_of_round(self, round_: int) -> list[LedgerRow]:
        """The ledger's entries of one round, repeats included."""
        return [row for row in self._ledger if row.round == round_]

    # -- what the files of a run are made from ----------------------------------------------------

    @property
    def entries(self) -> list[EntryColumns]:
        """The ledger, in its order, each entry by itself."""
        return [entry for some in columns_of_rows(self._ledger) for entry in some.each()]

    def lines(self) -> Iterator[dict[str, Any]]:
        """One line per round, observer and subject, as the service's privacy ledger gives them."""
        for columns in columns_of_rows(self._ledger):
            yield from ledger_columns([columns], self._account.subjects).lines()

    def series(self, *, validate_every: int) -> Series:
        """The public figures of the rounds, for the report's page; of very many, as many as a page
        can draw."""
        every, numbers = drawn_rounds(len(self.rounds), validate_every=validate_every)
        drawn = set(numbers)
        rounds = [row for row in self.rounds if row.round in drawn]
        gaps = [row for row in self.fairness if row.round in drawn]
        return series_of(rounds, gaps, every=every)
