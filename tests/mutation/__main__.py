"""`python -m tests.mutation fedaudit/ledger --minutes 10`: which mutants no related test notices.

Prints the score of each file and every mutant that survived. Mutants come in a random order that
`--seed` sets, so a run that its time cuts short has judged a random sample of them.
"""

import argparse
import random
import time
from collections import Counter
from pathlib import Path

from tests.mutation.forked import import_libraries, judged, related
from tests.mutation.importers import CLIENT, Importers
from tests.mutation.mutants import Mutant, mutants_of

_MORE_TESTS = {
    "fedaudit/fairness": (
        *("tests/workers/test_disclosure_memory.py", "tests/utility"),
        *("tests/reports/sections", "tests/privacy/lower_bounds"),
    ),
    "fedaudit/ledger": (
        "tests/reports/verification",
        "tests/runs/test_ledger_writer.py",
        "tests/api/people/test_audit_log.py",
        "tests/api/ledgers",
    ),
    "fedaudit/privacy/accounting": (
        *("tests/privacy/test_count_release.py", "tests/privacy/test_spending_plan.py"),
        *("tests/privacy/declared", "tests/privacy/mechanisms", "tests/ledger"),
    ),
    "fedaudit/privacy/noise": ("tests/training/test_mechanisms.py",),
}
"""Tests elsewhere that are about a folder, beside those that mirror it."""


def folders_of(target: Path) -> list[str]:
    """The tests that mirror a folder or file, or else those of the nearest folder above it."""
    if target.is_relative_to(CLIENT):
        place = Path("tests", "client", *target.relative_to(CLIENT).parts[1:])
    else:
        place = Path("tests", *target.parts[1:])
    own = place.with_name(f"test_{place.name}")
    found = own if own.is_file() else place
    while not found.exists():
        found = found.parent
    more = [
        folder
        for about, folders in _MORE_TESTS.items()
        if target.is_relative_to(about)
        for folder in folders
    ]
    return [str(found), *more]


def main() -> None:
    """Judge as many mutants as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, help="a folder or file of the domain library")
    parser.add_argument("--tests", nargs="*", default=[], help="in place of those that mirror it")
    parser.add_argument("--minutes", type=float, default=30.0, help="after the tests ran once")
    parser.add_argument("--sample", type=int, default=None, help="at most so many mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the mutants")
    options = parser.parse_args()
    target: Path = options.target
    paths = sorted(target.rglob("*.py")) if target.is_dir() else [target]
    mutants = [mutant for path in paths for mutant in mutants_of(path)]
    random.Random(options.seed).shuffle(mutants)
    import_libraries()
    folders = options.tests or folders_of(target)
    print(f"{len(mutants)} mutants of {len(paths)} files; tests: {' '.join(folders)}", flush=True)
    tests, importers = related(folders, paths), Importers()
    verdicts: dict[Path, Counter[str]] = {path: Counter() for path in paths}
    until = time.monotonic() + 60 * options.minutes
    for mutant in mutants[: options.sample]:
        if time.monotonic() > until:
            break
        if not mutant.parses():
            continue
        own = tests.of(mutant)
        verdict = "not executed"
        if own:
            verdict = judged(mutant, own, importers=importers, limit=tests.limit(own))
        verdicts[mutant.path][verdict] += 1
        if verdict in ("survived", "not executed"):
            print(verdict_line(mutant, verdict), flush=True)
    print(scores(verdicts, all_=len(mutants)))


def verdict_line(mutant: Mutant, verdict: str) -> str:
    """A mutant that no test noticed."""
    return f"\n{verdict}: {mutant.path}:{mutant.line} ({mutant.operator})\n{mutant.diff()}"


def scores(verdicts: dict[Path, Counter[str]], *, all_: int) -> str:
    """A table of the judged mutants, as Markdown."""
    lines = ["", "| file | judged | killed | survived | score |", "|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for path, counts in verdicts.items():
        total += counts
        if counts:
            lines.append(_row(f"`{path}`", counts))
    lines.append(_row(f"all, of {all_} mutants", total))
    return "\n".join(lines)


def _row(name: str, counts: Counter[str]) -> str:
    judged_, killed = counts.total(), counts["killed"] + counts["timeout"]
    share = f"{100 * killed / judged_:.0f} %" if judged_ else "-"
    return f"| {name} | {judged_} | {killed} | {judged_ - killed} | {share} |"


if __name__ == "__main__":
    main()
