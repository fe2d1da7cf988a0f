"""What an accountant needs to know about a mechanism.

Public numbers only, except for the events of record groups, whose rates follow from the budgets;
the ledger that keeps them is confidential.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.leakage import leakage, leakages, release_epsilons

Floats = NDArray[np.float64]

GuaranteeKind = Literal["formal", "heuristic", "declared", "none"]
"""`declared`: a trainer elsewhere states it, and nobody here saw the noise."""
DECLARED: Literal["declared"] = "declared"
CostKind = Literal["leakage", "epsilon", "unbounded"]
"""How a cost is counted: as leakage under metric privacy, as an epsilon with a delta, or not at
all, because nothing bounds it."""


def known_guarantee_kind(name: object) -> GuaranteeKind | None:
    """The kind of that name. None of any other: a document may come from anywhere."""
    kinds: tuple[GuaranteeKind, ...] = get_args(GuaranteeKind)
    return next((kind for kind in kinds if kind == name), None)


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "n": int,
    **dict.fromkeys(("mechanism", "noise", "guarantee"), str),
    **dict.fromkeys(("event", "adjacency", "accountant"), (str, NoneType)),
    **dict.fromkeys(
        ("noise_multiplier", "radius", "radius_floor", "clip", "delta"), (float, int, NoneType)
    ),
}
"""Of the stored fields besides components."""


@dataclass(frozen=True)
class Component:
    """A part of the vector that has its own noise and radius, such as a layer."""

    name: str
    n: int
    """Released parameters of this part."""


def layer_components(sizes: Sequence[int]) -> tuple[Component, ...]:
    """The layers of a network, in the order of its vector: `layer-1` and so on."""
    return tuple(Component(f"layer-{place}", size) for place, size in enumerate(sizes, start=1))


@dataclass(frozen=True)
class MechanismParameters:
    """The mechanism of one ledger entry. None stands for a number that it does not have.

    Raises ValueError for components that do not make up the released vector.
    """

    mechanism: str
    n: int
    """Released parameters."""
    noise_multiplier: float | None
    radius: float | None
    """The fixed, public radius; None where it is adaptive or there is no mechanism."""
    radius_floor: float | None
    """The public lower bound on an adaptive radius; None where the radius is fixed."""
    clip: float | None
    noise: str
    guarantee: GuaranteeKind
    event: str | None = None
    """Canonical JSON of what is composed (`SpendingPlan.events_json`); None where nothing is
    counted as an epsilon with a delta, and then the fields below are None too."""
    delta: float | None = None
    adjacency: str | None = None
    accountant: str | None = None
    components: tuple[Component, ...] | None = None
    """The parts of the vector, where each has a radius of its own; None where the vector is
    released as a whole."""

    def __post_init__(self) -> None:
        if self.components is None:
            return
        if self.counts_epsilon or self.noise_multiplier is None:
            raise ValueError("only metric privacy releases components with radii of their own")
        names = {component.name for component in self.components}
        if len(names) < len(self.components) or min(part.n for part in self.components) < 1:
            raise ValueError("components need distinct names and at least one parameter each")
        if sum(part.n for part in self.components) != self.n:
            raise ValueError(f"the components do not add up to {self.n} parameters")

    @property
    def counts_epsilon(self) -> bool:
        """Whether the cost is an epsilon with a delta; otherwise it is leakage or unbounded."""
        return self.event is not None

    @property
    def cost_kind(self) -> CostKind:
        """How the cost of an entry is counted."""
        if self.event is not None:
            return "epsilon"
        return "unbounded" if self.noise_multiplier is None else "leakage"

    @property
    def follow_from_n(self) -> bool:
        """Whether a spec and the number of parameters determine all of it, without data."""
        return not self.counts_epsilon and self.components is None

    @property
    def component_sizes(self) -> tuple[int, ...]:
        """Parameters of each component; empty where the vector is released as a whole."""
        return tuple(component.n for component in self.components or ())

    @property
    def noised_sizes(self) -> tuple[int, ...]:
        """Parameters of each part of the vector that has its own noise."""
        return self.component_sizes or (self.n,)

    def leakage(self, releases: float) -> float:
        """What so many releases of the whole vector leak. ValueError where leakage is not counted.

        `releases` as in `metric.leakage.leakage`.
        """
        return leakage(releases, n=self.n, noise_multiplier=self._nu())

    def leakages(self, releases: ArrayLike, *, sizes: ArrayLike | None = None) -> Floats:
        """The same of many releases; `sizes`: parameters of the parts, the whole vector without."""
        n = self.n if sizes is None else sizes
        return leakages(releases, n=n, noise_multiplier=self._nu())

    def release_epsilons(self, radii: ArrayLike) -> Floats:
        """The rate per unit of distance of each noised part [..., parts], for radii that fit.

        Raises ValueError where leakage is not counted.
        """
        return release_epsilons(self.noised_sizes, noise_multiplier=self._nu(), radii=radii)

    def _nu(self) -> float:
        if self.cost_kind != "leakage" or self.noise_multiplier is None:
            raise ValueError(f"the cost of {self.mechanism} is not counted as leakage")
        return self.noise_multiplier

    def radii_shape(self, subjects: int) -> tuple[int, ...]:
        """The shape of the radii of this many subjects: one each, or one per component and
        subject."""
        return (subjects,) if self.components is None else (subjects, len(self.components))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        # Fields are plain values, of which a deep copy takes many times as long.
        found: dict[str, Any] = dict(vars(self))
        if self.components is not None:
            found["components"] = [asdict(part) for part in self.components]
        return found

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "MechanismParameters":
        """The inverse of `as_dict`. Raises TypeError for a missing or unknown field or one of
        another type, and ValueError for invalid components."""
        components = fields.get("components")
        for name, types in _TYPES.items():
            value = fields.get(name)
            if not isinstance(value, types) or isinstance(value, bool):
                raise TypeError(f"{name} is a {type(value).__name__}")
        return cls(**{**fields, "components": None if components is None else _read(components)})


def unbounded_inputs(mechanism: str, *, n: int, noise: str) -> MechanismParameters:
    """What is recorded of training without noise."""
    return MechanismParameters(
        mechanism=mechanism,
        n=n,
        noise_multiplier=None,
        radius=None,
        radius_floor=None,
        clip=None,
        noise=noise,
        guarantee="none",
    )


def _read(components: Any) -> tuple[Component, ...]:
    if not isinstance(components, list) or not components:
        raise ValueError("components must be a list of names and sizes")
    for part in components:
        known = isinstance(part, dict) and part.keys() == {"name", "n"}
        if not (known and isinstance(part["name"], str) and type(part["n"]) is int):
            raise ValueError("a component has a name and a number of parameters, and no more")
    return tuple(Component(**part) for part in components)
