"""The interface between a finished run and what attacks it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedaudit.reports.document.attacks.attack_section import AttackSection
from fedaudit.runs.run import Run
from fedaudit.training.base.round_records import FinalResult

Progress = Callable[[float], None]
"""Is given the share that is done, from 0 to 1, often: it may raise to stop the attack."""


@dataclass(frozen=True)
class AttackedRun:
    """A run that has come to its end."""

    run: Run
    """Its spec, data, ledger and what of its groups is disclosed."""
    result: FinalResult
    """Its trained hypotheses and how they did."""
    device: str


@dataclass(frozen=True)
class AttackOutcome:
    """What an attack found."""

    section: AttackSection
    """What the report prints: nothing that suppression hides."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Confidential figures and pictures, by file name, as `scores.csv`."""


class Attack(ABC):
    """An attack as its spec asks for it."""

    @abstractmethod
    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """Attacks the run. It draws from the run's seed under purposes of its own, or from the
        operating system's entropy where the run's noise is `release`."""
