"""Reports of experiments with the figures that a test wants."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from fedaudit.reports.report import report_hash
from models.repositories import ExperimentRepository, ReportRepository
from tests.api.service import Api, finish, spec
from workers.finish import report_index

Change = Callable[[dict[str, Any]], None]


class Reports:
    """Stores reports like that of one finished run, with changes."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.first = api.submit()["id"]
        self._document = finish(api, self.first)

    def add(self, change: Change | None = None, **of_spec: Any) -> str:
        """The id of an experiment with a report; `of_spec` are changes of its spec."""
        submitted = self.api.submit(spec(**of_spec))
        document = copy.deepcopy(self._document)
        document["experiment"] |= {name: submitted[name] for name in ("id", "name", "spec_hash")}
        document["spec"] = submitted["spec"]
        document["guarantee"]["mechanism"] = submitted["spec"]["privacy"]["mechanism"]
        if change is not None:
            change(document)
        with self.api.database.write() as session:
            ReportRepository(session, self.api.project_id).put(
                submitted["id"],
                document=document,
                report_hash=report_hash(document),
                index=report_index(document),
            )
            ExperimentRepository(session, self.api.project_id).conclude(
                submitted["id"],
                status="succeeded",
                figures={
                    "epsilon_max": document["privacy"]["epsilon_max"],
                    "delta": document["guarantee"]["delta"],
                    "gate_outcome": document["gate_outcome"],
                },
            )
        found: str = submitted["id"]
        return found


def leaks(value: float) -> Change:
    """The largest leakage."""

    def change(document: dict[str, Any]) -> None:
        document["privacy"]["leakage_max"] = value

    return change


def gaps(**of: float | None) -> Change:
    """One value for every gap of an attribute."""

    def change(document: dict[str, Any]) -> None:
        [section] = document["fairness"]
        document["fairness"] = [
            {
                **copy.deepcopy(section),
                "attribute": attribute,
                "metrics": {
                    name: {**metric, "value": value, "reason": None if value else "no groups"}
                    for name, metric in section["metrics"].items()
                },
            }
            for attribute, value in of.items()
        ]

    return change


def spends(
    epsilons: Mapping[str, float], *, delta: float = 1e-5, adjacency: str = "replace-one"
) -> Change:
    """An epsilon against each observer in the place of a leakage."""

    def change(document: dict[str, Any]) -> None:
        privacy = document["privacy"]
        missing = [name for name in privacy if name.startswith("leakage")]
        counted = {"delta": delta, "adjacency": adjacency}
        document["guarantee"] |= {"kind": "formal", "observers": [*epsilons], **counted}
        privacy |= dict.fromkeys(missing)
        privacy["reasons"] = dict.fromkeys(missing, "it is counted as an epsilon")
        privacy["epsilon_max"] = max(epsilons.values())
        privacy["epsilon"] = [
            {"observer": observer, "accountant": "rdp", "value": value, **counted}
            for observer, value in epsilons.items()
        ]

    return change
