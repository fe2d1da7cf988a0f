"""Text in CSV files that a spreadsheet would take for a formula."""

import re

_FORMULA = re.compile(r"[=@\t\r]|[+-](?!\d+\Z)")


def plain_text(text: str) -> str:
    """The text, with an apostrophe before it where a spreadsheet would run it: names come from
    data."""
    return f"'{text}" if _FORMULA.match(text) else text
