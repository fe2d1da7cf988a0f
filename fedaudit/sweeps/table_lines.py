"""The table of a sweep as lines, for CSV and Markdown."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from fedaudit.reports.readings.markdown import plain, table
from fedaudit.reports.sections.guarantee import PRIVACY_COSTS, UNBOUNDED
from fedaudit.spreadsheet import plain_text
from fedaudit.sweeps.seed_spread import Spread
from fedaudit.sweeps.sweep_table import SweepRow, SweepTable
from fedaudit.sweeps.varied_fields import value_words, varied_fields

_OF_A_FIGURE = ("mean", "standard_deviation", "low", "high", "n", "best")
_DIGITS = 4


def as_csv(found: SweepTable) -> str:
    """A line for each row; a figure takes six columns, as accuracy.mean."""
    text = io.StringIO()
    writer = csv.writer(text)
    fields = _fields(found)
    figures = [f"{name}.{part}" for name in found["figures"] for part in _OF_A_FIGURE]
    writer.writerow(
        [*fields, "seeds", "succeeded", "degenerate", "front", *map(plain_text, figures)]
    )
    for place, row in enumerate(found["rows"]):
        cells = [_cell(values[place]) for values in fields.values()]
        counts = [row["seeds"], row["succeeded"], row["degenerate"], row["front"]]
        writer.writerow([*cells, *counts, *_parts(row, found["figures"])])
    return text.getvalue()


def as_markdown(found: SweepTable) -> str:
    """The means with their intervals; the best ones in bold, and what is to be known of them."""
    return "\n".join(_markdown(found)) + "\n"


def _markdown(found: SweepTable) -> Iterator[str]:
    fields = _fields(found)
    head = [*fields, "seeds", *found["figures"], "front"]
    rows = [
        [
            *(plain(value_words(values[place])) for values in fields.values()),
            f"{row['succeeded']} of {row['seeds']}"
            + (f", {row['degenerate']} degenerate" if row["degenerate"] else ""),
            *(_in_markdown(row, name) for name in found["figures"]),
            "yes" if row["front"] else "",
        ]
        for place, row in enumerate(found["rows"])
    ]
    yield from table([plain(one) for one in head], rows)
    if found["front_figures"]:
        yield ""
        yield f"On the front: no other row is better in all of {', '.join(found['front_figures'])}."
    for note in found["notes"]:
        yield ""
        yield f"{note[0].upper()}{note[1:]}."


def _in_markdown(row: SweepRow, name: str) -> str:
    words = figure_words(row, name)
    return f"**{words}**" if row["figures"][name]["best"] else words


def figure_words(row: SweepRow, name: str) -> str:
    """A figure of a row with its interval over seeds; `unbounded` for a cost that nothing bounds,
    which a dash would hide."""
    if row["unbounded"] and name in PRIVACY_COSTS:
        return UNBOUNDED
    return spread_words(row["figures"][name])


def spread_words(figure: Spread) -> str:
    """As 0.72 (0.70 to 0.74); a dash for what no seed has."""
    if figure["mean"] is None:
        return "–"
    mean = f"{figure['mean']:.{_DIGITS}g}"
    if figure["low"] is None or figure["high"] is None:
        return mean
    return f"{mean} ({figure['low']:.{_DIGITS}g} to {figure['high']:.{_DIGITS}g})"


def _fields(found: SweepTable) -> dict[str, list[Any]]:
    return varied_fields([row["values"] for row in found["rows"]])


def _parts(row: SweepRow, names: list[str]) -> list[Any]:
    return [row["figures"][name][part] for name in names for part in _OF_A_FIGURE]  # type: ignore[literal-required]


def _cell(value: Any) -> Any:
    return plain_text(value_words(value)) if isinstance(value, str | bool | list | dict) else value
