"""The evidence for a verification: everything that one experiment left, wherever it was kept."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedaudit.ledger.ed25519 import PublicKey
from fedaudit.ledger.rows import StoredRow, UnreadableRow


@dataclass(frozen=True)
class Fault:
    """A part of the evidence that could not be read as expected."""

    part: str
    message: str


@dataclass(frozen=True)
class Evidence:
    """The parts as they were found; none of them is trusted."""

    experiment_id: str
    spec: Any
    """The spec with every default explicit."""
    names: Sequence[str]
    """The subjects' names by index."""
    report: dict[str, Any] | None
    """None for an experiment that failed or was cancelled."""
    checkpoints: Sequence[Any]
    """DSSE envelopes, oldest first."""
    keys: Sequence[PublicKey]
    """Keys that came with the evidence and prove nothing about the signer."""
    rows: Iterable[StoredRow | UnreadableRow]
    """The ledger in its order; read once."""
    sign_offs: Sequence[Any] = ()
    """DSSE envelopes, oldest first."""
    later_attacks: Sequence[Any] = ()
    """DSSE envelopes of what attacks found after the report, oldest first."""
    salt: bytes | None = None
    """That the digests of the rows are keyed with; None where they are not, or it was erased."""
    erased: Any = None
    """The DSSE envelope of the statement that stands for erased names; None where they are real."""
    compromised: Mapping[str, str] = field(default_factory=dict)
    """By the ids of keys that the service says have leaked, since when."""
    faults: list[Fault] = field(default_factory=list)
    """Grows while the rows are read."""
