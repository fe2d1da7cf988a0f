"""Ledgers of experiments and of trainings elsewhere: what every subject spent, packed into one row
a round; their terms and states; and the budgets on the data, with what is reserved of them.

A row holds its subjects as parallel arrays, because a row a subject costs a hundred times the rows.
The view `privacy_ledger` (made by the migrations) unpacks them for people.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from fedaudit.stored import CostFigure
from models.arrays import Packed, PackedArray
from models.tables.base import Base, ExperimentRow, Identifier, ProjectRow, Word


class Ledger(Base):
    """One round of one release against one observer, of an experiment or of a training elsewhere:
    its subjects as parallel arrays, its inputs, digest and link. Rows are only inserted. The
    primary key is the only index, since each costs at every round."""

    __tablename__ = "ledger"

    experiment_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    """Or the id of a declared ledger."""
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    release: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    subject_kind: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    project_id: Mapped[str] = mapped_column(Identifier)

    subjects: Mapped[Packed] = mapped_column(PackedArray("int32"))
    outcomes: Mapped[Packed] = mapped_column(PackedArray("int16"))
    """0 released, 1 refused, 2 withheld."""
    radii: Mapped[Packed] = mapped_column(PackedArray("float64"))
    """NaN if nothing was released. With components, a subject's are adjacent."""
    releases: Mapped[Packed] = mapped_column(PackedArray("int32"))
    """Each subject's releases up to and including this round: totals need no window."""
    clusters: Mapped[Packed] = mapped_column(PackedArray("int16"))
    epsilons: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """Each subject's spending up to this round, at `delta`; null for metric privacy, whose epsilon
    follows from the radius."""

    mechanism: Mapped[str] = mapped_column(Word)
    n: Mapped[int] = mapped_column(BigInteger)
    noise_multiplier: Mapped[float | None]
    radius: Mapped[float | None]
    """The public radius; null where it is adaptive."""
    radius_floor: Mapped[float | None]
    clip: Mapped[float | None]
    noise: Mapped[str] = mapped_column(Word)
    guarantee: Mapped[str] = mapped_column(Word)
    event: Mapped[str | None]
    """What was composed, as canonical JSON; null for metric privacy, as are the next three."""
    delta: Mapped[float | None]
    adjacency: Mapped[str | None] = mapped_column(Word)
    accountant: Mapped[str | None] = mapped_column(Word)
    components: Mapped[list[Any] | None]
    """Name and number of parameters of each part with its own radius; null if an upload is released
    as a whole."""

    digest: Mapped[bytes]
    link: Mapped[bytes]
    interrupted: Mapped[bool]
    declaration: Mapped[bytes | None]
    """The keyed hash of what a declared round stated beside its entries, which the link holds; null
    in rounds that were declared before there was one."""


class LedgerTotals(ExperimentRow):
    """Each subject's running totals by index, overwritten at each flush; for several observers one
    block each, in the order of their names."""

    __tablename__ = "ledger_totals"

    releases: Mapped[Packed] = mapped_column(PackedArray("int32"))
    refusals: Mapped[int] = mapped_column(BigInteger)
    withheld: Mapped[int] = mapped_column(BigInteger)


class ReleaseIntent(ExperimentRow):
    """Whom a release was about to charge, committed before its noise was drawn. An intent without a
    ledger row is a round lost in a crash: it stays spent."""

    __tablename__ = "release_intents"

    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    release: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    subjects: Mapped[Packed] = mapped_column(PackedArray("int32"))
    created_at: Mapped[datetime]


class Round(ExperimentRow):
    """One round's figures; a figure that is null may have its reason in `reasons`."""

    __tablename__ = "rounds"

    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    selection_loss: Mapped[float | None]
    validation_loss: Mapped[float | None]
    accuracy: Mapped[float | None]
    cluster_sizes: Mapped[list[Any]]
    separation: Mapped[float | None]
    collapsed: Mapped[bool]
    leakage_median: Mapped[float | None]
    leakage_max: Mapped[float | None]
    epsilon_max: Mapped[float | None]
    demographic_parity_difference: Mapped[float | None]
    equalized_odds_difference: Mapped[float | None]
    equal_opportunity_difference: Mapped[float | None]
    leakage_by_cluster: Mapped[list[Any] | None]
    reasons: Mapped[dict[str, Any]]


class Fairness(ExperimentRow):
    """One attribute in one round. The counts are confidential; the figures are not."""

    __tablename__ = "fairness"

    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attribute: Mapped[str] = mapped_column(primary_key=True)
    figures: Mapped[list[Any]]
    """Objects of metric, value and reason."""
    counts: Mapped[list[Any]]
    """Per group: true positives, false positives, true negatives, false negatives."""


class SigningKey(Base):
    """The public half of a key that the service signs with, or has signed with."""

    __tablename__ = "signing_keys"

    key_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    algorithm: Mapped[str] = mapped_column(Word)
    public_key: Mapped[str]
    """PEM."""
    created_at: Mapped[datetime]
    """When the service first used it."""
    retired_at: Mapped[datetime | None]
    """When another key took its place; null while it is the key in use."""
    compromised_at: Mapped[datetime | None]
    """Time since which others may have the key, by the operator's statement; else null."""
    compromised_note: Mapped[str | None]
    derived_from: Mapped[str | None] = mapped_column(String(64))
    """The key that it follows from, and is lost with; null for a key that was made."""


class LedgerCheckpoint(Base):
    """How many entries a ledger had, signed. Rows are only ever inserted."""

    __tablename__ = "ledger_checkpoints"

    experiment_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    """Or the id of a declared ledger."""
    entries: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    status: Mapped[str] = mapped_column(Word, primary_key=True)
    """That of the experiment when it was made: the end is signed apart. A declared ledger runs for
    ever."""
    project_id: Mapped[str] = mapped_column(Identifier)
    envelope: Mapped[dict[str, Any]]
    """DSSE."""
    created_at: Mapped[datetime]


class RunLogEntry(Base):
    """An entry of the log of the runs on a federation. Rows are only ever inserted."""

    __tablename__ = "run_log"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    size: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Size of the log with this entry."""
    experiment_id: Mapped[str] = mapped_column(Identifier, index=True)
    run: Mapped[int]
    kind: Mapped[str] = mapped_column(Word)
    digest: Mapped[str] = mapped_column(String(64))
    subtrees: Mapped[bytes]
    """Hashes of the subtrees of the tree of this size, 32 bytes each."""
    checkpoint: Mapped[str]
    """The signed head of this size."""


class DeclaredLedger(ProjectRow):
    """One ledger. Its terms never change; the rest moves on with every round."""

    __tablename__ = "declared_ledgers"
    __table_args__ = (Index("ix_declared_ledgers_project_id_id", "project_id", "id"),)

    name: Mapped[str]
    terms: Mapped[dict[str, Any]]
    terms_hash: Mapped[str] = mapped_column(String(64))
    federation_id: Mapped[str | None] = mapped_column(ForeignKey("federations.id"))
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any] | None]

    rounds: Mapped[int]
    last_round: Mapped[int]
    entries: Mapped[int]
    head: Mapped[bytes]
    """The link of the newest entry."""
    secret: Mapped[bytes | None]
    """32 random bytes, the key of its rounds' declarations: readers of those must not guess
    counts by trying. Null before the first."""
    ledger_salt: Mapped[bytes | None]
    """Key of its entries' digests; null in ledgers that were opened before they had one, and in
    those whose names were erased."""
    names: Mapped[list[Any]]
    """The subjects by index; the first represents all."""
    releases: Mapped[Packed] = mapped_column(PackedArray("int32"))
    """[subjects]: the entries that charged each."""
    drawn_names: Mapped[list[Any] | None]
    """Who was named in rounds that charge everyone: secret, and in no bundle. Null before any."""
    drawn_counts: Mapped[Packed | None] = mapped_column(PackedArray("int64"))
    """[drawn_names]: the rounds that named each."""
    epsilon_max: Mapped[float | None]
    """After the newest round, by Renyi orders; null where nothing bounds it or it is no epsilon."""
    leakage_max: Mapped[float | None]
    alarm_round: Mapped[int | None]
    """The round in which canaries contradicted the declared noise; of its evidence the round's
    `canaries` are in the chain."""
    declared_at: Mapped[datetime | None]
    """When the newest round was."""
    signed_entries: Mapped[int]
    """How many a signature covers; -1 before the first."""
    signed_at: Mapped[datetime | None]
    report: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """Signed, of so many entries; overwritten by that of later rounds."""
    report_hash: Mapped[str | None] = mapped_column(String(64))


class DeclaredRoundRow(Base):
    """One round as it was declared, without the names of its participants."""

    __tablename__ = "declared_rounds"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    content_hash: Mapped[str] = mapped_column(String(64))
    """Hash of all that was declared, participants included: the same again changes nothing."""
    event: Mapped[dict[str, Any]]
    participants: Mapped[int]
    failures: Mapped[int]
    over_budget: Mapped[int]
    """Clients whom it charged beyond their budgets."""
    reserved: Mapped[str] = mapped_column(Word)
    """`reserved`, `other` where it is not what was reserved, `refused` where it asked clients whom
    its reservation had refused, `none` without a reservation."""
    reservations: Mapped[str | None] = mapped_column(String(64))
    """The keyed hash of what was reserved behind the round before it, up to this one; null in
    rounds that were declared before the chain held it."""
    groups: Mapped[dict[str, Any] | None]
    drawn: Mapped[str | None] = mapped_column(String(64))
    """The keyed hash of who was drawn so far and how often, in the last round of a request that
    drew a client in secret; null in others."""
    canaries: Mapped[dict[str, Any] | None]
    """What canaries show up to this round; null in rounds without any."""
    head: Mapped[str] = mapped_column(String(64))
    """The chain's after this round."""
    declared_at: Mapped[datetime]


class DeclaredReservation(Base):
    """What a round may spend that was not declared yet."""

    __tablename__ = "declared_reservations"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    event: Mapped[dict[str, Any]]
    admitted: Mapped[list[Any]]
    """Names."""
    refused: Mapped[int] = mapped_column(BigInteger)
    denied: Mapped[list[Any] | None]
    """Names of those who were refused and not admitted since; null where that is not known, of
    earlier reservations."""
    replaced: Mapped[int] = mapped_column(server_default="0")
    """Open ones of the same round whose place it took without containing them."""
    state: Mapped[str] = mapped_column(Word)
    """`open`, `used` by a round, `released` by the trainer; `refused` where no client was
    admitted and nothing is held."""
    reserved_at: Mapped[datetime]
    expires_at: Mapped[datetime]


BUDGET_KEY = ("federation_id", "book", "figure", "delta", "adjacency", "observer", "unit_key")
"""The columns that name one budget."""


class BudgetRow(Base):
    """The columns that name a budget.

    A key holds no nulls: 0 and '' represent a `delta`, `adjacency` or `observer` of a figure that
    has none. Leakage, which has no adjacency, has its radius and clip in its place
    (`LeakageTerms.key`). `unit_key` says how the clients of the figure are distinguished, or is
    `row`; '' where it was not recorded, which counts as the same whatever the other one is.
    """

    __abstract__ = True

    federation_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    book: Mapped[str] = mapped_column(Word, primary_key=True)
    figure: Mapped[CostFigure] = mapped_column(Word, primary_key=True)
    delta: Mapped[float] = mapped_column(primary_key=True)
    adjacency: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    unit_key: Mapped[str] = mapped_column(
        String(255), primary_key=True, default="", server_default=text("''")
    )


class FederationBudget(BudgetRow):
    """One budget: what may be spent. What is reserved and spent of it follows from the rows of
    `Reservation`. Of leakage, '' in the place of radius and clip is a total for which they were not
    recorded, which no run matches. A `unit_key` of '' is a total that names no clients, and
    what was spent before it was recorded."""

    __tablename__ = "federation_budgets"
    __table_args__ = (ForeignKeyConstraint(["federation_id"], ["federations.id"]),)

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    total: Mapped[float | None]
    """Null: no bound was set; spending is charged all the same."""


class Reservation(BudgetRow):
    """What one experiment may still spend of a budget (`held`), or did spend (`settled`)."""

    __tablename__ = "reservations"
    __table_args__ = (
        ForeignKeyConstraint(
            list(BUDGET_KEY),
            [f"federation_budgets.{column}" for column in BUDGET_KEY],
            name="fk_reservations_budget",
        ),
        # All that a sum of a budget is read from.
        Index("ix_reservations_sums", *BUDGET_KEY, "state", "amount", "spent"),
    )

    experiment_id: Mapped[str] = mapped_column(Identifier, primary_key=True, sort_order=-1)
    amount: Mapped[float]
    """Cost of the experiment by itself; an epsilon is at its own delta."""
    spent: Mapped[float]
    """What a sum has spent: an epsilon is composed from what follows, and not stored."""
    state: Mapped[str] = mapped_column(Word)

    unit: Mapped[str | None] = mapped_column(Word)
    """Unit of an epsilon's adjacency, `client` or `record`; like the curve and the counts, only for
    an epsilon."""
    curve: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """Renyi divergences at common orders: an upper bound while held, the spending once settled.
    They add up over experiments, whatever their deltas."""
    step: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """The same for one composition, at most. Of the theorem's sum: [1], what one release adds."""
    planned: Mapped[int | None]
    """How many compositions `curve` was reserved for; -1 of what is counted no more."""
    compositions: Mapped[int | None]
    """How many are charged as spent."""
