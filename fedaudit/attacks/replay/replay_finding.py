"""What a replay says: where a run leaves what its ledger charged for."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

Stage = Literal["loading", "sampling", "clip", "sum", "noise", "release", "accounting"]
"""In the order in which a round passes them; what breaks one often shows in later ones too."""
STAGES: tuple[Stage, ...] = get_args(Stage)
DEFAULT_ROUNDS = 12
"""Rounds that are played where nobody says."""
FALSE_ALARM = 1e-6
"""The chance that a correct run fails any of its tests of distributions, over seeds."""


@dataclass(frozen=True, kw_only=True)
class ReplayFinding:
    """One thing that the guarantee does not allow."""

    stage: Stage
    check: str
    """Which check found it: a short name."""
    round: int | None
    """The first round in which it shows; None where it shows in no single one."""
    allowed: str
    measured: str
    times: int = 1
    """How often it showed."""

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """The outcome of a replay."""

    findings: tuple[ReplayFinding, ...]
    """In the order of `STAGES`."""
    mechanism: str
    neighbours: str
    """What differs between the two runs."""
    rounds: int
    checks: dict[str, int]
    """By name of a check, how many things it looked at; checks that had nothing to look at are
    absent."""
    unprotected: tuple[str, ...]
    """What observers see without noise: that it follows the neighbour is known and said."""
    tests: int
    """Of the checks, those that test a distribution and can ring falsely."""
    false_alarm: float = FALSE_ALARM
    """The chance that a correct run has a finding: of all those tests together."""

    @property
    def broken(self) -> Stage | None:
        """The first stage with a finding; None where there is none."""
        return self.findings[0].stage if self.findings else None

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return asdict(self) | {"broken": self.broken}


class Findings:
    """Findings and counts of one replay, while it goes on."""

    def __init__(self) -> None:
        self._found: dict[tuple[Stage, str], ReplayFinding] = {}
        self._tested: list[tuple[Stage, str, float]] = []
        self.checks: dict[str, int] = {}

    @property
    def tests(self) -> int:
        """How many distributions were tested."""
        return len(self._tested)

    def looked(self, check: str, count: int = 1) -> None:
        """Counts what a check looked at."""
        if count:
            self.checks[check] = self.checks.get(check, 0) + count

    def add(
        self, stage: Stage, check: str, *, round_: int | None, allowed: object, measured: object
    ) -> None:
        """Adds a finding; of one stage and check the first is kept, and the others are counted."""
        key = stage, check
        if key in self._found:
            self._found[key] = replace(self._found[key], times=self._found[key].times + 1)
            return
        self._found[key] = ReplayFinding(
            stage=stage,
            check=check,
            round=round_,
            allowed=_words(allowed),
            measured=_words(measured),
        )

    def found(self, stage: Stage, check: str) -> bool:
        """Whether a check has a finding."""
        return (stage, check) in self._found

    def expect(
        self,
        stage: Stage,
        check: str,
        *,
        holds: bool,
        round_: int | None,
        allowed: object,
        measured: object,
    ) -> None:
        """Counts a look, and adds a finding where what is expected does not hold."""
        self.looked(check)
        if not holds:
            self.add(stage, check, round_=round_, allowed=allowed, measured=measured)

    def test(self, stage: Stage, check: str, pvalue: float) -> None:
        """Takes a p-value in; what it means is decided once all of them are known."""
        self.looked(check)
        self._tested.append((stage, check, pvalue))

    def decide(self) -> tuple[ReplayFinding, ...]:
        """All findings, by stage, those of the tests included."""
        least = FALSE_ALARM / max(1, self.tests)
        for stage, check, pvalue in self._tested:
            if not pvalue >= least:
                self.add(
                    stage,
                    check,
                    round_=None,
                    allowed=f"the charged distribution (p of at least {least:.1e})",
                    measured=f"p = {pvalue:.1e}",
                )
        found: Iterable[ReplayFinding] = self._found.values()
        return tuple(sorted(found, key=lambda one: STAGES.index(one.stage)))


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(one) for one in value)
    return str(value)
