"""The filters of the list of reports, as its form sends them."""

import re

from fastapi import Request

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def asked_for(request: Request) -> dict[str, str]:
    """The filters that were filled in: a form sends those too that were left empty."""
    return {name: value for name, value in request.query_params.items() if value}


def whole_days(asked: dict[str, str]) -> dict[str, str]:
    """The same, where a day as an upper bound includes the whole of it."""
    upper = {
        name: f"{value}T23:59:59.999999Z"
        for name, value in asked.items()
        if name.endswith("_before") and _DAY.fullmatch(value)
    }
    return {**asked, **upper}
