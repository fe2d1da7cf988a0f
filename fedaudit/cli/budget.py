"""The command `budget`: what may be spent on a federation's data."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import connected
from fedaudit.cli.display.federation_table import show_budgets
from fedaudit.cli.display.output import say, write_json
from fedaudit.cli.failures import usage_error
from fedaudit.cli.forms import AdjacencyName, NoiseMode
from fedaudit.cli.options import AsJson

app = typer.Typer()
_FIGURES = ("leakage", "log_ratio", "epsilon")


@app.command()
def budget(
    federation_id: Annotated[
        str, typer.Argument(metavar="FEDERATION", help="The federation's id.")
    ],
    *,
    total: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="FIGURE=TOTAL",
            help="leakage, log_ratio or epsilon, and what may be spent of it in all; "
            "`none` takes the total back.",
        ),
    ] = None,
    noise: Annotated[
        NoiseMode,
        typer.Option("--noise", "--book", help="Of which runs: those with this noise."),
    ] = "release",
    delta: Annotated[float | None, typer.Option(help="Of an epsilon.")] = None,
    adjacency: Annotated[AdjacencyName | None, typer.Option(help="Of an epsilon.")] = None,
    observer: Annotated[str | None, typer.Option(help="Of an epsilon, as server.")] = None,
    radius: Annotated[
        str | None, typer.Option(help="Of leakage: adaptive (the default), or a distance.")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Of leakage: what updates are clipped to.")] = (
        None
    ),
    unit_key: Annotated[
        str | None, typer.Option(help="Whose clients, as client_key=zip; else the first that come.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what may be spent on a federation's data, and what was; or set one total."""
    terms = {
        "delta": delta,
        "adjacency": adjacency,
        "observer": observer,
        "radius": radius,
        "clip": clip,
        "unit_key": unit_key,
    }
    given = {name: value for name, value in terms.items() if value is not None}
    if total is None and given:
        raise usage_error(f"budget: {_option(next(iter(given)))} goes with --set")
    setting = None if total is None else {**_setting(total, noise), **_typed(given)}
    with connected() as client:
        if setting is None:
            found = client.budgets(federation_id)
        else:
            found = client.set_budget(federation_id, setting)
    if as_json:
        write_json(list(found))
        return
    if found:
        show_budgets(found)
    else:
        say("nothing was spent on this data, and no total is set")
    _warn(found)


def _setting(total: str, noise: NoiseMode) -> dict[str, Any]:
    figure, _, amount = total.partition("=")
    if figure not in _FIGURES:
        raise usage_error(f"--set: {figure!r} is not one of {', '.join(_FIGURES)}; as leakage=40")
    try:
        bound = None if amount == "none" else float(amount)
    except ValueError:
        bound = nan
    if bound is not None and not isfinite(bound):
        raise usage_error(f"--set: {amount!r} is no number; as {figure}=40, or {figure}=none")
    return {"book": noise, "figure": figure, "total": bound}


def _typed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with a radius that is a distance as a number."""
    radius = given.get("radius")
    if radius is None or radius == "adaptive":
        return dict(given)
    try:
        return {**given, "radius": float(radius)}
    except ValueError:
        raise usage_error(f"--radius: {radius!r} is neither `adaptive` nor a distance") from None


def _warn(budgets: Sequence[Mapping[str, Any]]) -> None:
    """A run is counted by leakage or by epsilon: with totals for both, one of them refuses it."""
    for noise in ("release", "simulation"):
        bound = {
            one["figure"]
            for one in budgets
            if one["book"] == noise and one["total"] is not None and one["observer"] != "report"
        }
        if "epsilon" in bound and bound & {"leakage", "log_ratio"}:
            say(
                f"{' and '.join(sorted(bound))} have totals for runs with {noise} noise: no run "
                "is counted by leakage and by an epsilon, so each is refused; take one back with "
                "--set FIGURE=none"
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
