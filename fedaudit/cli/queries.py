"""Conditions on figures, as `--where` takes them."""

import re

from fedaudit.cli.failures import usage_error

_CONDITION = re.compile(r"\s*([a-z_]+)\s*(<=|>=|=)\s*(.+?)\s*", re.DOTALL)
_SIDES = {"<=": "[lte]", ">=": "[gte]", "=": ""}


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
