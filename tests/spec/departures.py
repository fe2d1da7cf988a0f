"""What is refused of requests that depart from a registration, a policy or a floor:
`python -m tests.spec.departures` records it anew in `departures.json`.

A caller who may choose such a field freely can make the answer depend on one person. So every
difference that is asked for is set against everything that binds.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from fedaudit.spec.audits import (
    AuditSpec,
    floor_faults_of_audit,
    parse_audit,
    policy_faults,
    registered_use_faults,
)
from fedaudit.spec.disclosure import (
    DisclosureFloor,
    DisclosurePolicy,
    floor_faults,
    parse_disclosure_policy,
    registration_faults,
    spec_faults,
)
from fedaudit.spec.errors import FieldError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import Registration, departures, parse_registration
from tests.spec.documents import BY_RECORD, HOSPITAL, IMAGES, POISSON, TABLE, changed

RECORDED = Path(__file__).with_name("departures.json")
Asked = TypeVar("Asked")
Bound = TypeVar("Bound")
Fault = tuple[str, str, bool]
"""Pointer, message, and whether it follows from what was sent alone."""
Table = dict[str, list[list[Fault]]]
"""For each request, what is refused of it under one bound after the other."""

_SEX, _AGE, _CITY, _CROSSED = "sex", "age", "city/town", [["age", "sex"]]
_IN, _GE = {"op": "in", "value": ["1"]}, {"op": "ge", "value": 50}
_BY_SEX = [{"op": "in", "value": ["1"], "group": {"sex": "f"}}]
_BOTH = {"sensitive": [_AGE, _SEX]}
FAIRNESS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "age": {"sensitive": [_AGE]},
    "sex": {"sensitive": [_SEX]},
    "city": {"sensitive": [_CITY]},
    "both": _BOTH,
    "all": {"sensitive": [_CITY, _AGE, _SEX]},
    "cut": {**_BOTH, "edges": {_AGE: [40]}},
    "cut finer": {**_BOTH, "edges": {_AGE: [40, 60]}},
    "both cut": {**_BOTH, "edges": {_AGE: [40], _SEX: [0.5]}},
    "city cut": {"sensitive": [_CITY, _AGE], "edges": {_CITY: [3], _AGE: [40]}},
    "joined": {**_BOTH, "groups": {_SEX: {"other": ["x", "y"]}}},
    "joined otherwise": {**_BOTH, "groups": {_SEX: {"other": ["x"]}}},
    "sex joined": {"sensitive": [_SEX], "groups": {_SEX: {"other": ["x", "y"]}}},
    "left out": {**_BOTH, "exclude": {_SEX: ["x"]}},
    "left out more": {**_BOTH, "exclude": {_SEX: ["x", "y"], _AGE: ["9"]}},
    "age left out": {"sensitive": [_AGE], "exclude": {_AGE: ["9"]}},
    "in": {**_BOTH, "favourable": _IN},
    "in words": {**_BOTH, "favourable": {**_IN, "label": "paid"}},
    "in other words": {**_BOTH, "favourable": {**_IN, "label": "owed"}},
    "at least": {**_BOTH, "favourable": _GE},
    "by group": {**_BOTH, "favourable": _BY_SEX},
    "by group in words": {**_BOTH, "favourable": [{**_BY_SEX[0], "label": "paid"}]},
    "small": {**_BOTH, "minimum_group_size": 2, "minimum_group_clients": 1},
    "large": {**_BOTH, "minimum_group_size": 50, "minimum_group_clients": 7},
    "everything": {
        "sensitive": [_SEX, _CITY, _AGE],
        "edges": {_AGE: [30]},
        "groups": {_CITY: {"south": ["a", "b"]}},
        "exclude": {_SEX: ["y"]},
        "favourable": {"op": "le", "value": 3},
        "minimum_group_size": 29,
        "minimum_group_clients": 3,
    },
}
"""What specs and audits ask for, and registrations have."""
CROSSED: dict[str, dict[str, Any]] = {
    "crossed": {**_BOTH, "intersections": _CROSSED},
    "crossed back": {**_BOTH, "intersections": [[_SEX, _AGE]]},
    "all crossed": {
        "sensitive": [_CITY, _AGE, _SEX],
        "intersections": [[_CITY, _AGE], [_AGE, _SEX], [_CITY, _AGE, _SEX]],
    },
    "reference": {**_BOTH, "reference_group": "f"},
    "unknown reference": {**_BOTH, "reference_group": "x"},
}
"""What registrations cannot have."""
_NO_GROUP: dict[str, dict[str, Any]] = {"rule alone": {"favourable": _IN}}
"""What registrations alone can have."""
_TABLE = TABLE["federation"]
_DEALT = {name: given for name, given in _TABLE.items() if name != "client_key"}
SOURCES: dict[str, dict[str, Any]] = {
    "table": _TABLE,
    "other file": {**_TABLE, "path": "b.csv"},
    "no header": {**_TABLE, "header": False},
    "other client": {**_TABLE, "client_key": "whose"},
    "dealt": {**_DEALT, "partition": {"method": "iid", "clients": 5}},
    "dealt more": {**_DEALT, "partition": {"method": "iid", "clients": 6}},
    "by column": {**_DEALT, "partition": {"method": "column", "column": "who"}},
    "other target": {**_TABLE, "target": "debt"},
    "features": {**_TABLE, "features": ["rate", {"name": "height", "missing": "drop-row"}]},
    "fewer features": {**_TABLE, "features": ["rate"]},
    "dropped": {**_TABLE, "drop": ["rate"]},
    "reviewed": {**_TABLE, "leak_reviewed": ["*"]},
    "clients missing": {**_TABLE, "missing_client": "drop-row"},
    "targets missing": {**_TABLE, "missing_target": "drop-row"},
    "joined columns": {**_TABLE, "join": {"race": {"columns": {"r1": "a"}, "none": "b"}}},
    "positive": {**_TABLE, "positive": "1"},
    "empty": {**_TABLE, "missing_values": ["", "?"]},
    "scaled": {**_TABLE, "scale": {"*": 10}},
    "standardised": {**_TABLE, "scale": {"*": {"low": 0, "high": 1}}, "standardise": "ranges"},
    "labelled": {**_TABLE, "labels": {"income": {"1": "high"}}},
    "labelled otherwise": {**_TABLE, "labels": {"income": {"1": "low", "0": "high"}}},
    "fraction": {**_TABLE, "validation_fraction": 0.4},
    "split": {**_TABLE, "scoring": {"method": "split", "fraction": 0.4}},
    "hospital": HOSPITAL["federation"],
    "other conditions": {**HOSPITAL["federation"], "conditions": [194]},
    "images": IMAGES["federation"],
    "classes": {**IMAGES["federation"], "classes": 10},
    "femnist": {"source": "femnist", "path": "a.zip"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "seed": {"seed": 4},
    "some validate": {"training.stopping": {"validation_clients": 20}},
    "fraction": {"federation.validation_fraction": 0.4},
    "rows held out": {"federation.validation_unit": "record"},
    "scoring": {"federation.scoring": {"method": "split", "fraction": 0.4}},
    "chosen start": {"model.start": {"artifact": "0" * 64}},
    "budgets of the data": {
        **{"training.cohort": POISSON, "training.hypotheses": 1, "training.local": {"steps": 1}},
        "privacy": {**BY_RECORD, "budgets": {"column": "wish"}},
    },
}
"""What else specs choose, by dotted paths."""
_SPLIT = {"validation_fraction": 0.3, "seed": 0}
POLICIES: dict[str, dict[str, Any]] = {
    "none": {},
    "rows": {"minimum_group_size": 31},
    "fewer rows": {"minimum_group_size": 1},
    "clients": {"minimum_group_clients": 3},
    "one client": {"minimum_group_clients": 1},
    "edges": {"edges": {_AGE: [40]}},
    "no edges": {"edges": {}},
    "groups": {"groups": {_SEX: {"other": ["x", "y"]}}},
    "no groups": {"groups": {}},
    "left out": {"exclude": {_SEX: ["x"]}},
    "none left out": {"exclude": {}},
    "in": {"favourable": {**_IN, "label": "well"}},
    "at least": {"favourable": _GE},
    "by group": {"favourable": _BY_SEX},
    "sex": {"sensitive": [_SEX]},
    "no attribute": {"sensitive": []},
    "crossed": {"intersections": _CROSSED},
    "not crossed": {"intersections": []},
    "split": {"split": _SPLIT},
    "other split": {
        "split": {
            **{"validation_fraction": 0.4, "seed": 4, "validation_unit": "record"},
            **{"scoring": {"method": "split", "fraction": 0.4}, "validation_clients": 20},
        }
    },
    "registered": {"source": "registered"},
    "everything": {
        **{"minimum_group_size": 40, "minimum_group_clients": 4, "edges": {_AGE: [60]}},
        **{"groups": {_CITY: {"south": ["a"]}}, "exclude": {_AGE: ["9"]}, "favourable": _GE},
        **{"sensitive": [_AGE, _CITY], "intersections": [[_AGE, _CITY]]},
        **{"split": {**_SPLIT, "seed": 1}, "source": "registered"},
    },
}
_AUDIT = {
    **{"name": "audit", "path": "a.csv", "truth": "income", "prediction": "rate"},
    **{"client_key": "who", "sensitive": [_AGE, _SEX], "favourable": _IN},
}
_SCORED = {"prediction": ..., "score": "height", "threshold": 0.5}
AUDITS: dict[str, dict[str, Any]] = {
    **{
        f"groups: {name}": {"sensitive": [_AGE], **fairness}
        for name, fairness in {**FAIRNESS, **CROSSED}.items()
    },
    "by id": {"path": ..., "id": "01234567-89ab-cdef-0123-456789abcdef"},
    "other truth": {"truth": "debt"},
    "other prediction": {"prediction": "guess"},
    "scored": _SCORED,
    "other client": {"client_key": "whose"},
    "no client": {"client_key": ...},
    "no client, large": {"client_key": ..., "minimum_group_clients": 7},
    "no client, all groups": {"client_key": ..., **FAIRNESS["everything"]},
    "no client, by id": {
        **{"client_key": ..., "path": ..., "minimum_group_clients": 1},
        "id": "01234567-89ab-cdef-0123-456789abcdef",
    },
    "labelled": {"labels": {"income": {"1": "high"}}},
    "labelled otherwise": {"labels": {"income": {"1": "low"}, "sex": {"f": "women"}}},
    "seed": {"seed": 4},
}
FLOORS = {
    f"{size} of {clients}": DisclosureFloor(size, clients)
    for size in (1, 30, 31)
    for clients in (1, 2, 3, 8)
}
_BASES = {"hospital-charges": HOSPITAL, "table": TABLE, "images": IMAGES, "femnist": IMAGES}


def _spec(
    source: Mapping[str, Any] = _TABLE,
    fairness: Mapping[str, Any] = {},
    others: dict[str, Any] | None = None,
) -> ExperimentSpec:
    base = {**_BASES[source["source"]], "federation": source, "fairness": fairness}
    return parse_spec(changed(base, others or {}))


def _registration(
    source: Mapping[str, Any] = _TABLE, fairness: Mapping[str, Any] = {}
) -> Registration:
    return parse_registration({"name": "data", "federation": source, "fairness": fairness})


def _specs() -> dict[str, ExperimentSpec]:
    return {
        **{f"groups: {name}": _spec(fairness=one) for name, one in FAIRNESS.items()},
        **{f"groups: {name}": _spec(fairness=one) for name, one in CROSSED.items()},
        **{f"source: {name}": _spec(one) for name, one in SOURCES.items()},
        **{f"other: {name}": _spec(others=one) for name, one in OTHERS.items()},
        "other: all at once": _spec(
            SOURCES["positive"],
            {**FAIRNESS["everything"], "reference_group": "x", "intersections": _CROSSED},
            {**OTHERS["some validate"], **OTHERS["chosen start"]},
        ),
    }


def _registrations() -> dict[str, Registration]:
    return {
        **{
            f"groups: {name}": _registration(fairness=one)
            for name, one in {**FAIRNESS, **_NO_GROUP}.items()
        },
        **{f"source: {name}": _registration(one) for name, one in SOURCES.items()},
    }


def _against(
    asked: Mapping[str, Asked],
    bounds: Sequence[Bound],
    faults: Callable[[Asked, Bound], Sequence[FieldError]],
) -> Table:
    return {
        name: [
            [(one.pointer, one.message, one.of_spec) for one in faults(request, bound)]
            for bound in bounds
        ]
        for name, request in asked.items()
    }


def tables() -> dict[str, Table]:
    """Every request against every bound."""
    specs, registrations = _specs(), _registrations()
    audits: dict[str, AuditSpec] = {
        name: parse_audit(changed(_AUDIT, one)) for name, one in AUDITS.items()
    }
    policies = {name: parse_disclosure_policy(one) for name, one in POLICIES.items()}
    known, floors = list(registrations.values()), list(FLOORS.values())
    # The source is bound to the registration; of the rest the registration says nothing.
    pairs: list[tuple[DisclosurePolicy, Registration | None]] = [
        *((policy, one) for policy in policies.values() for one in (None, _registration())),
        *((policies["registered"], _registration(one)) for one in SOURCES.values()),
    ]

    def of_policy(
        faults: Callable[..., list[FieldError]],
    ) -> Callable[[Any, tuple[DisclosurePolicy, Registration | None]], list[FieldError]]:
        return lambda asked, bound: faults(bound[0], asked, registration=bound[1])

    return {
        "specs and registrations": _against(
            specs, known, partial(departures, known_groups=("f", "m"))
        ),
        "specs and policies": _against(specs, pairs, of_policy(spec_faults)),
        "registrations and policies": _against(
            registrations, pairs, of_policy(registration_faults)
        ),
        "audits and registrations": _against(audits, known, registered_use_faults),
        "audits and policies": _against(audits, pairs, of_policy(policy_faults)),
        "specs and floors": _against(
            specs, floors, lambda spec, floor: floor_faults(floor, spec.fairness)
        ),
        "audits and floors": _against(
            audits, floors, lambda audit, floor: floor_faults_of_audit(floor, audit)
        ),
    }


def recorded() -> dict[str, Table]:
    """What was recorded."""
    stored = json.loads(RECORDED.read_text("utf-8"))
    faults = [tuple(one) for one in stored["faults"]]
    outcomes = [[faults[place] for place in one] for one in stored["outcomes"]]
    return {
        kind: {name: [outcomes[place] for place in row] for name, row in table.items()}
        for kind, table in stored["tables"].items()
    }


def _record(found: Mapping[str, Table]) -> Iterator[str]:
    """The lines of the file: each fault and each list of faults once, and tables of their
    places."""
    rows = list(chain.from_iterable(table.values() for table in found.values()))
    listed = sorted({tuple(one) for row in rows for one in row})
    faults = sorted({fault for one in listed for fault in one})
    fault_place = {fault: place for place, fault in enumerate(faults)}
    place_of = {one: place for place, one in enumerate(listed)}
    places = [[fault_place[fault] for fault in one] for one in listed]
    yield '{"faults": [\n' + ",\n".join(json.dumps(one) for one in faults) + "\n],"
    yield '"outcomes": [\n' + ",\n".join(json.dumps(one) for one in places) + "\n],"
    yield '"tables": {'
    for number, (kind, table) in enumerate(found.items(), 1):
        lines = (
            f"{json.dumps(name)}: {json.dumps([place_of[tuple(one)] for one in row])}"
            for name, row in table.items()
        )
        end = "" if number == len(found) else ","
        yield f"{json.dumps(kind)}: {{\n" + ",\n".join(lines) + f"\n}}{end}"
    yield "}}"


if __name__ == "__main__":
    RECORDED.write_text("\n".join(_record(tables())) + "\n", "utf-8")
