"""What a replay reports: where a run leaves what its ledger charged for. No torch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from fedaudit.arrays import Floats

Stage = Literal["loading", "sampling", "clip", "sum", "noise", "release", "accounting"]
"""The stages in the order of a round; what breaks one often shows in later ones, too."""
STAGES: tuple[Stage, ...] = get_args(Stage)
DEFAULT_ROUNDS = 12
"""Rounds that are played unless asked otherwise."""
FALSE_ALARM = 1e-6
"""The chance that a correct run fails any of its tests of distributions, over seeds."""


@dataclass(frozen=True, kw_only=True)
class ReplayFinding:
    """One thing that the guarantee does not allow."""

    stage: Stage
    check: str
    """The short name of the check that found it."""
    round: int | None
    """The first round in which it shows; None if it shows in no single one."""
    allowed: str
    measured: str
    times: int = 1
    """How often it showed."""


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """The outcome of a replay."""

    findings: tuple[ReplayFinding, ...]
    """Findings in the order of `STAGES`."""
    mechanism: str
    neighbours: str
    """What differs between the two runs."""
    rounds: int
    checks: dict[str, int]
    """How many things each check examined, keyed by its name; a check without any is absent."""
    unprotected: tuple[str, ...]
    """What observers see without noise: that it follows the neighbour is known and documented."""
    tests: int
    """Checks that test a distribution and can raise a false alarm."""
    false_alarm: float = FALSE_ALARM
    """The chance that a correct run has a finding: of all those tests together."""

    @property
    def broken(self) -> Stage | None:
        """The first stage with a finding; None without findings."""
        return self.findings[0].stage if self.findings else None

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return asdict(self) | {"broken": self.broken}


class Findings:
    """Findings and counts of a replay in progress."""

    def __init__(self) -> None:
        self.found: dict[tuple[Stage, str], ReplayFinding] = {}
        """By stage and name of the check: the first, and how often it showed."""
        self._tested: list[tuple[Stage, str, float]] = []
        self.checks: dict[str, int] = {}

    @property
    def tests(self) -> int:
        """How many distributions were tested."""
        return len(self._tested)

    def at(self, stage: Stage, round_: int | None = None) -> "Checks":
        """The checks of one stage in one round, or in no single one."""
        return Checks(self, stage, round_)

    def looked(self, check: str, count: int = 1) -> None:
        """Counts what a check examined."""
        if count:
            self.checks[check] = self.checks.get(check, 0) + count

    def test(self, stage: Stage, check: str, pvalue: float) -> None:
        """Takes in a p-value; what it means is decided once all of them are known."""
        self.looked(check)
        self._tested.append((stage, check, pvalue))

    def decide(self) -> tuple[ReplayFinding, ...]:
        """All findings by stage, including those of the tests."""
        least = FALSE_ALARM / max(1, self.tests)
        for stage, check, pvalue in self._tested:
            if not pvalue >= least:
                allowed = f"the charged distribution (p of at least {least:.1e})"
                self.at(stage).add(check, allowed=allowed, measured=f"p = {pvalue:.1e}")
        return tuple(sorted(self.found.values(), key=lambda one: STAGES.index(one.stage)))


@dataclass(frozen=True)
class Checks:
    """The checks of one stage; each counts what it examined, and adds a finding if it fails."""

    findings: Findings
    stage: Stage
    round: int | None

    def add(self, check: str, *, allowed: object, measured: object) -> None:
        """Adds a finding without counting; of one check the first is kept, and how often."""
        found, key = self.findings.found, (self.stage, check)
        if key in found:
            found[key] = replace(found[key], times=found[key].times + 1)
            return
        found[key] = ReplayFinding(
            stage=self.stage,
            check=check,
            round=self.round,
            allowed=_words(allowed),
            measured=_words(measured),
        )

    def expect(self, check: str, holds: bool, *, allowed: object, measured: object) -> None:
        """Expects a condition to hold."""
        self.findings.looked(check)
        if not holds:
            self.add(check, allowed=allowed, measured=measured)

    def equal(self, check: str, measured: object, allowed: object) -> None:
        """Expects two values to be equal."""
        self.expect(check, measured == allowed, allowed=allowed, measured=measured)

    def at_most(self, check: str, measured: float, allowed: float) -> None:
        """Expects a number not to exceed another."""
        self.expect(check, measured <= allowed, allowed=allowed, measured=measured)

    def none_above(
        self, check: str, measured: "Floats", allowed: float, *, slack: float = 0.0
    ) -> None:
        """Expects each of some numbers [numbers] to exceed another by no more than rounding does;
        the largest is the finding."""
        self.findings.looked(check, len(measured))
        if not (measured <= allowed + slack).all():
            self.add(check, allowed=allowed, measured=float(measured.max()))

    def at_least(self, check: str, measured: float, allowed: float, *, close: float = 0.0) -> None:
        """Expects a number to be no smaller than another, but for this share of it."""
        self.expect(check, measured >= allowed * (1 - close), allowed=allowed, measured=measured)


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(one) for one in value)
    return str(value)
