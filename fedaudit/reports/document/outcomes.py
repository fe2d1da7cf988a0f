"""The possible outcomes of a gate."""

from typing import Final, Literal

GateOutcome = Literal["pass", "fail", "insufficient_evidence"]

PASS: Final = "pass"
FAIL: Final = "fail"
INSUFFICIENT: Final = "insufficient_evidence"
