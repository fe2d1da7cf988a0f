"""One run while it goes on: what is known of it between blocks of rounds."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from fedaudit import how_to_install
from fedaudit.arrays import Ints32
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.noised_counts import Rounder
from fedaudit.federations.federation import Federation
from fedaudit.federations.split import split_clients, training_clients
from fedaudit.ledger.encoding import new_salt
from fedaudit.ledger.ledger_context import HeldOutContext, LedgerContext, build_metric_context
from fedaudit.ledger.rows import report_inputs
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.count_release import count_release, held_out_units
from fedaudit.privacy.leakage import ClusterCounts
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.ledger_writer import LedgerWriter
from fedaudit.spec.errors import error_at
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.metrics import COUNTS
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import spending_of
from fedaudit.training.base.rounds import PlannedRound

if TYPE_CHECKING:
    from fedaudit.runs.sampled_rounds import SampledRounds


LIBRARIES = ("torch", "sklearn", "fairlearn")
"""Torch trains; Fairlearn and scikit-learn compute the report's fairness figures a second time."""


class MissingLibraryError(Exception):
    """A library that runs need cannot be imported; the message names the extra to install."""


def import_worker_extra() -> None:
    """Import what a run needs, which takes seconds the first time.

    Raises MissingLibraryError where one is not installed or cannot be loaded, so that no run
    trains for hours and then fails over its report.
    """
    for name in LIBRARIES:
        try:
            import_module(name)
        # OSError: torch is installed, and a shared library that it needs is not.
        except (ImportError, OSError) as error:
            raise MissingLibraryError(
                f"training needs {name}, which cannot be imported ({error}): "
                f"{how_to_install('worker')}"
            ) from error


_KEY_BYTES = 32
_AHEAD = 256
"""Validated rounds of which it takes hardly longer to decide than of a few."""
_Ahead = tuple[Sequence[int], Mapping[str, Disclosure], Mapping[int, str]]


@dataclass
class Run:
    """An experiment, its data, and its ledger so far."""

    experiment_id: str
    name: str
    cell: Cell
    ledger: LedgerWriter
    started_at: datetime
    rounds_done: int = 0
    interrupted_rounds: list[PlannedRound] = field(default_factory=list)
    """Rounds that were charged, whose results are lost, and that are not yet in the ledger; by
    round."""
    withheld: frozenset[str] = frozenset()
    """Attributes of which nothing is reported, because of what earlier reports disclosed."""
    rounding_key: bytes = field(default_factory=lambda: os.urandom(_KEY_BYTES), repr=False)
    """Secret: with it, the rounding of the counts can be computed. Another key rounds otherwise."""
    _ahead: _Ahead = field(default=((), {}, {}), init=False, repr=False)
    by_cluster: ClusterCounts | None = field(init=False)
    """Moved on with the ledger; None where the cost is no leakage."""

    def __post_init__(self) -> None:
        ledger = self.ledger
        self.by_cluster = None
        if ledger.inputs.cost_kind == "leakage":
            self.by_cluster = ClusterCounts(ledger.clusters, ledger.spending.releases)

    @property
    def spec(self) -> ExperimentSpec:
        """What was asked for."""
        return self.cell.spec

    @property
    def federation(self) -> Federation:
        """Its data."""
        return self.cell.federation

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Sensitive attribute -> its groups, in the order of the counts."""
        return {attribute.name: attribute.values for attribute in self.federation.attributes}

    @cached_property
    def disclosures(self) -> Mapping[str, Disclosure]:
        """Which groups of each attribute are disclosed: decided once, for its rounds and report."""
        # Only now: it brings pyarrow along, which would double the time that the API starts in.
        from fedaudit.runs.held_out_groups import decide_disclosures

        return decide_disclosures(self.cell, withheld=self.withheld)

    def disclosures_of(self, rounds: Sequence[int]) -> Mapping[str, Disclosure]:
        """Which groups are disclosed in validated rounds, keyed by attribute: [rounds, groups]."""
        sampled = self._sampled_rounds
        if sampled is None:
            return {name: one.repeated(len(rounds)) for name, one in self.disclosures.items()}
        known, disclosures, _ = self._decided_ahead(sampled, rounds)
        at = np.searchsorted(known, rounds)
        return {
            name: replace(one, rows=one.rows[at], shown=one.shown[at], large=None)
            for name, one in disclosures.items()
        }

    @cached_property
    def everybody_withheld(self) -> str | None:
        """Why no figure of all who are scored may be shown; None where it may."""
        from fedaudit.runs.held_out_groups import why_everybody_is_withheld

        return why_everybody_is_withheld(self.cell)

    def rounds_withheld(self, rounds: Sequence[int]) -> Mapping[int, str]:
        """Those of these and later validated rounds that may show no figure of everybody; why."""
        if self.everybody_withheld is not None:
            return dict.fromkeys(rounds, self.everybody_withheld)
        sampled = self._sampled_rounds
        return {} if sampled is None else self._decided_ahead(sampled, rounds)[2]

    def _decided_ahead(self, sampled: "SampledRounds", rounds: Sequence[int]) -> _Ahead:
        """What is decided of these validated rounds, and of others that follow them."""
        if not set(rounds) <= set(self._ahead[0]):
            training, every = self.spec.training, self.spec.training.stopping.validate_every
            # Of several attributes each round is decided by itself, perhaps for nothing.
            most = rounds[0] + (_AHEAD * every if len(self.groups) == 1 else 1)
            known = sorted({*range(rounds[0], min(most, training.rounds + 1), every), *rounds})
            self._ahead = known, sampled.disclosures(known), sampled.everybody_withheld(known)
        return self._ahead

    @cached_property
    def _sampled_rounds(self) -> "SampledRounds | None":
        """None where every round scores all held-out clients."""
        from fedaudit.runs.sampled_rounds import SampledRounds

        size = self.spec.training.stopping.validation_clients
        if size is None or size >= len(self.cell.validation_rows.clients):
            return None
        return SampledRounds(self.cell, self.disclosures, size=size)

    @cached_property
    def rounder(self) -> Rounder | None:
        """How its counts are rounded; None where they are not."""
        base = self.spec.fairness.rounded_to
        if base is None:
            return None
        from fedaudit.runs.held_out_groups import build_rounder

        return build_rounder(self.cell, base=base, key=self.rounding_key)

    @cached_property
    def training_clients(self) -> int:
        """How many clients train."""
        return training_clients(self.federation.clients, self.spec.federation)


def new_run(cell: Cell, *, experiment_id: str, started_at: datetime) -> Run:
    """A run before its first round. Raises InvalidInputError where no noise is enough."""
    ledger_context = cell_ledger_context(cell)
    ledger = LedgerWriter.from_beginning(
        ledger_context,
        experiment_id=experiment_id,
        training=training_subjects(cell, ledger_context),
        salt=new_salt(cell.spec.privacy.noise),
    )
    return Run(experiment_id, cell.spec.name, cell, ledger, started_at)


def cell_ledger_context(cell: Cell) -> LedgerContext:
    """Who is charged for a spec over its data, by which mechanism and against whom.

    Raises InvalidInputError where no noise is enough for its records' budgets, or keeps the epsilon
    of the fairness counts, and where the delta of these hides no one.
    """
    spec, federation = cell.spec, cell.federation
    layers, plan = layer_sizes(cell.shape), spending_of(spec, federation)
    inputs = mechanism_of(spec).inputs(n=cell.shape.n, plan=plan, layers=layers)
    if plan is None:
        context = build_metric_context(inputs, federation.client_names)
    else:
        context = LedgerContext(inputs, plan.subject_kind, plan.subjects, plan.observers, plan)
    release = count_release(spec)
    if release is None:
        return context
    training = training_clients(federation.clients, spec.federation)
    sizes = {"rows": federation.rows, "clients": federation.clients, "training_clients": training}
    if spec.hides_counts and release.delta * held_out_units(sizes, unit=release.unit) >= 1:
        message = (
            f"{release.delta:g} is too large for noise to replace suppression: the data of a "
            f"held-out {release.unit} could be handed over whole; take one far below one in as "
            "many as are held out, or `discrete-laplace`"
        )
        raise error_at("/fairness/noise/delta", message, of_spec=True)
    counts = len(COUNTS) * sum(len(attribute.values) for attribute in federation.attributes)
    charged = report_inputs(release, counts=counts, noise=spec.privacy.noise)
    return replace(context, held_out=HeldOutContext(release, charged))


def training_subjects(cell: Cell, ledger_context: LedgerContext) -> Ints32:
    """Indices of the subjects that can be charged.

    Clients that train; all subjects where these are no clients, or records are held out instead.
    """
    source = cell.spec.federation
    if ledger_context.subject_kind != "client" or source.validation_unit == "record":
        return np.arange(len(ledger_context.subjects), dtype=np.int32)
    return split_clients(
        cell.federation.clients, validation_fraction=source.validation_fraction, seed=cell.spec.seed
    ).training
