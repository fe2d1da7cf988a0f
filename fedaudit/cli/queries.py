"""The commands `reports` and `compare`."""

import re
from collections.abc import Sequence
from itertools import islice

from fedaudit.cli.display.comparison_table import show_comparison
from fedaudit.cli.display.output import say, write_json
from fedaudit.cli.display.report_table import show_reports
from fedaudit.cli.failures import usage_error
from fedaudit.cli.remote import connected

_CONDITION = re.compile(r"\s*([a-z_]+)\s*(<=|>=|=)\s*(.+?)\s*", re.DOTALL)
_SIDES = {"<=": "[lte]", ">=": "[gte]", "=": ""}
MAX_PAGE = 1000
"""What the service gives at once."""


def reports_command(where: Sequence[str], *, sort: str | None, most: int, as_json: bool) -> None:
    """Print the reports that meet every condition, at most so many. Raises CommandError."""
    filters = dict(query_parameter(condition) for condition in where)
    page = min(most, MAX_PAGE)
    with connected() as client:
        found = list(islice(client.reports(**filters, sort=sort, limit=page), most + 1))
    shown = found[:most]
    if as_json:
        write_json(shown)
    else:
        named = [name.partition("[")[0] for name in filters]
        show_reports(shown, [*named, (sort or "").removeprefix("-")])
    if len(found) > most:
        say(f"there are more reports than the {most} shown; raise --most, or narrow by --where")


def compare_command(
    experiment_ids: Sequence[str], *, fairness: str | None, utility: str | None, as_json: bool
) -> None:
    """Print experiments side by side. Raises CommandError."""
    if len(experiment_ids) < 2:
        raise usage_error("compare: name two experiments or more")
    with connected() as client:
        comparison = client.compare(experiment_ids, fairness=fairness, utility=utility)
    if as_json:
        write_json(comparison)
    else:
        show_comparison(comparison)


def query_parameter(condition: str) -> tuple[str, str]:
    """The query parameter that a condition stands for, and its value."""
    found = _CONDITION.fullmatch(condition)
    if found is None:
        raise usage_error(
            f"--where: {condition!r} is no condition; write NAME=VALUE, FIGURE<=VALUE or "
            "FIGURE>=VALUE"
        )
    name, sign, value = found.groups()
    return f"{name}{_SIDES[sign]}", value
