"""A run that advice is for, or what it would be after changes of its spec."""

import copy
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import expected_update, noise_ratio
from fedaudit.reports.sections.part import SpecChange
from fedaudit.reports.sections.utility import known_ending
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.privacy import GaussianCentral, GaussianLocal, LaplaceL2

STILL = 1e-3
"""Share of the loss at the start: a run that moved it less has hardly begun; and of a constant's: a
model this near to it has come as far."""
_MARGIN = 5.0
"""Times what noise may add to a loss: a gap that is smaller may be due to noise."""


class AdvisedRun:
    """A report's run, or what it would be after changes."""

    def __init__(self, report: Mapping[str, Any], spec: ExperimentSpec) -> None:
        data, clip = report["data"], getattr(spec.privacy, "clip", None)
        self.report, self.spec = report, spec
        self.utility: Mapping[str, Any] = report["utility"]
        self.gain: float | None = self.utility.get("loss_under_baseline")
        self.start: Any = self.utility.get("start_loss")
        self.best: Any = self.utility["selection_loss"]
        self.has_noise = bool(report["guarantee"]["kind"] != "none")
        self.parameters = int(data["parameters"])
        self.clients = int(data["training_clients"])
        self.rows = float(data["rows"] / max(1, data["clients"]))
        """Rows of a client, on average."""
        self.step_size = spec.training.local.step_size
        of_updates = isinstance(spec.privacy, LaplaceL2 | GaussianLocal | GaussianCentral)
        self.clip = float(clip) if of_updates and isinstance(clip, int | float) else None
        """A fixed bound on whole updates."""
        self.length = expected_update(spec, n=self.parameters, rows=self.rows)
        """About how long an update is before its clip."""
        self.reach = spec.training.rounds * min(self.length, self.clip or math.inf)
        """How far all rounds together can go."""

    def changed(self, changes: Mapping[str, Any]) -> "AdvisedRun | None":
        """The run with other values, keyed by pointer; None where the spec would be refused."""
        document = with_changes(self.spec.model_dump(mode="json"), listed(changes))
        try:
            return AdvisedRun(self.report, parse_spec(document))
        except InvalidInputError:
            return None

    @property
    def ratio(self) -> float:
        """Noise of all rounds over what the updates can bear; 0 where it is not known."""
        noise = mechanism_of(self.spec).noise_multiplier()
        return noise_ratio(
            self.spec,
            sizes=(self.parameters,),
            training_clients=self.clients,
            rows=self.rows,
            noise_multiplier=None if isinstance(noise, str) else noise,
        )

    @property
    def noise_loss(self) -> float:
        """About how much noise adds to the loss, at most. Later steps of length eta pull noise of
        variance s^2 back to a curvature h, so that it adds n eta s^2 / 4 whatever h is."""
        return self.ratio**2 * self.reach / 10

    @property
    def gap(self) -> float | None:
        """How far the loss is from the constant's, however training ended."""
        diverged = known_ending(self.utility["stopped_by"]) == "diverged"
        return math.inf if diverged else None if self.gain is None else abs(self.gain)

    def drowned_by(self, after: "AdvisedRun") -> bool:
        """Whether the noise of longer training may add more than is between the loss and the
        constant's."""
        most = math.inf if self.gap is None else self.gap
        return after.noise_loss > max(self.noise_loss * (1 + STILL), most)

    @property
    def noise_may_matter(self) -> bool:
        """Whether noise may be why the loss is not below the constant's."""
        return self.has_noise and (self.gap is None or _MARGIN * self.noise_loss > self.gap)

    @cached_property
    def cost(self) -> float | None:
        """The exponent that bounds every subject if every round runs; None where nothing does, or
        where the spec does not determine it."""
        found = mechanism_of(self.spec).project_cost(
            n=self.parameters, training_clients=self.clients, layers=(self.parameters,)
        )
        values = [one["value"] for one in found.epsilon]
        if values:
            return max(map(float, values))  # type: ignore[arg-type]
        exact = found.log_ratio_worst_case
        return found.leakage_worst_case if exact is None else exact


def with_changes(spec: Mapping[str, Any], changes: Iterable[SpecChange]) -> dict[str, Any]:
    """A spec, every default written out, after changes."""
    found = copy.deepcopy(dict(spec))
    for change in changes:
        *way, last = change.pointer.removeprefix("/").split("/")
        place = found
        for step in way:
            place = place[step]
        place[last] = change.value
    return found


def listed(changes: Mapping[str, Any]) -> list[SpecChange]:
    return [SpecChange(pointer=pointer, value=value) for pointer, value in changes.items()]
