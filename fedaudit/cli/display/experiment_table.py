"""Experiments for people: several in a list, or one with all that is known of it."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from fedaudit.cli.display.output import standard_output, write_line
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.reports.document.outcomes import GateOutcome
from fedaudit.reports.document.privacy_costs import UNBOUNDED
from fedaudit.reports.gates.gate_results import OUTCOME_WORDS

Json = Mapping[str, Any]

_ID_WIDTH = 36
_GAPS = (
    "equalized_odds_difference",
    "demographic_parity_difference",
    "equal_opportunity_difference",
)


def show_experiments(experiments: Sequence[Json]) -> None:
    """A table that fits a terminal of 80 columns: names stand above their ids."""
    from rich.box import HORIZONTALS
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    # Else this one, which is the widest, would be narrowed first, and no id could be copied.
    table.add_column("experiment", no_wrap=True, width=_ID_WIDTH)
    for title in ("status", "privacy cost", "result", "gates"):
        table.add_column(title, overflow="fold")
    for one in experiments:
        cells = (_cost(one), _result(one), _gates(one))
        status = f"{one['status']}\n{_progress(one)}" if _is_under_way(one) else one["status"]
        name = "\n".join(wrap(one["name"], _ID_WIDTH))
        table.add_row(f"{escape(name)}\n{one['id']}", status, *map(escape, cells))
    standard_output().print(table)


def show_experiment(experiment: Json, *, page: str) -> None:
    """One line for each fact; those that there are none of are left out."""
    for label, value in _facts(experiment, page):
        if value:
            write_line(f"{label:20}{value}")


def _facts(experiment: Json, page: str) -> Iterator[tuple[str, str]]:
    spec, figures = experiment["spec"], experiment["figures"]
    reason = experiment["status_detail"] or experiment["status_reason"]
    yield "name", experiment["name"]
    yield "id", experiment["id"]
    yield "status", experiment["status"] + (f": {reason}" if reason else "")
    yield "rounds", _progress(experiment)
    yield "mechanism", _mechanism(spec["privacy"])
    yield "data", f"{spec['federation']['source']}, federation {experiment['federation_id']}"
    yield "tags", ", ".join(experiment["tags"])
    yield "retry of", experiment["retry_of"] or ""
    for label in ("created", "started", "finished"):
        yield label, experiment[f"{label}_at"] or ""
    yield "privacy cost", _cost(experiment).replace("\n", ", ")
    yield "result", _result(experiment).replace("\n", " ")
    for name in _GAPS:
        if figures[name] is not None:
            yield name.partition("_diff")[0].replace("_", " "), f"gap of {figures[name]:.4g}"
    yield "gates", _gates(experiment)
    yield "page", page


def _mechanism(privacy: Json) -> str:
    name: str = privacy["mechanism"]
    return name if name == "none" else f"{name}, {privacy['noise']} noise"


def _is_under_way(experiment: Json) -> bool:
    return experiment["status"] in ("queued", "running", "cancelling")


def _progress(experiment: Json) -> str:
    progress = experiment["progress"]
    return f"{progress['round']} of {progress['rounds']}"


def _cost(experiment: Json) -> str:
    """Costs are rounded up. What has a report and no figure is bounded by nothing."""
    figures = experiment["figures"]
    if figures["epsilon_max"] is not None:
        return f"epsilon {at_most(figures['epsilon_max'], digits=4)}\ndelta {figures['delta']:g}"
    if figures["leakage_max"] is not None:
        return f"leakage {at_most(figures['leakage_max'], digits=4)}"
    return UNBOUNDED if experiment["status"] == "succeeded" else ""


def _result(experiment: Json) -> str:
    figures = experiment["figures"]
    for name, label in (("accuracy", "accuracy"), ("validation_loss", "loss")):
        if figures[name] is not None:
            return f"{label}\n{figures[name]:.4g}"
    return ""


def _gates(experiment: Json) -> str:
    outcome: GateOutcome | None = experiment["gate_outcome"]
    words = "" if outcome is None else OUTCOME_WORDS[outcome]
    # A service of an earlier version says nothing of alarms.
    return f"{words}\nALARM".strip() if experiment.get("alarms") else words
