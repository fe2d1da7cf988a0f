"""The zoo, filled: `python -m tests.attacks.zoo.whole_zoo` prints it as the table of the docs."""

from tests.attacks.zoo import (
    accounting_violations,
    noise_violations,
    path_violations,
    record_violations,
    server_violations,
    upload_violations,
)
from tests.attacks.zoo.missed_violations import MISSED
from tests.attacks.zoo.violations import ZOO

__all__ = ["ZOO", "table"]

# Importing them fills the zoo.
_FILLED = (
    upload_violations,
    server_violations,
    record_violations,
    accounting_violations,
    noise_violations,
    path_violations,
)


def table() -> list[str]:
    """A line of Markdown for each violation: its name, the stage named, and by which check."""
    lines = ["| violation | stage named | check |", "|---|---|---|"]
    lines += [f"| {one.name} | {one.stage} | {one.check} |" for one in ZOO.values()]
    lines += [f"| {name} | **not found** | |" for name in MISSED]
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
