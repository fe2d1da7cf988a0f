"""Reports of every mechanism and shape, as documents with the series of their rounds."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fedaudit.reports.charts.report_charts import Series, series_of
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.material import ReportMaterial
from tests.fairness.disclosures import with_disclosures
from tests.reports.charts.test_charts_page import Gaps, made, rounds_of_epsilon
from tests.reports.conftest import SPEC
from tests.reports.sections.test_between_hypotheses_section import FIXED
from tests.reports.sections.test_between_hypotheses_section import made as with_hypotheses
from tests.reports.sections.test_cross_check import with_scores
from tests.reports.sections.test_epsilon_report import material_of
from tests.spec.documents import TABLE

Material = Callable[..., ReportMaterial]
Shape = tuple[str, dict[str, Any], Series | None]

LONG = "a-name-without-any-place-to-break-it-" * 4
_FAIRNESS = SPEC["fairness"]
_TABLE = {**TABLE["federation"], "features": ["hours"]}


def shapes(material: Material) -> Iterator[Shape]:
    """The reports, each with a name."""
    yield from _of_mechanisms(material)
    yield from _of_groups(material)
    yield from _of_rounds(material)
    yield from _of_documents(material)


def _of_mechanisms(material: Material) -> Iterator[Shape]:
    plain = {"privacy": {"mechanism": "none"}, "gates": [], "fairness": {"sensitive": []}}
    yield "no mechanism", assemble(material(plain)), made(12)
    layers = with_hypotheses(
        material,
        privacy={**FIXED, "clip": 0.5},
        hypotheses=np.array([[0, 0, 0], [3, 4, 12]], np.float32),
        radii=None,
        parts=(2, 1),
    )
    yield "per layer", layers, made(20)
    budgets = [0.5] * 40 + [6.0] * 5 + [8.0] * 60 + [1e-4] * 40
    yield "records of their own budgets", assemble(material_of(material, budgets)), _epsilons(6)


def _of_groups(material: Material) -> Iterator[Shape]:
    yield "hundreds of groups", *_many_groups(material, 300)
    yield "long names", *_many_groups(material, 12, prefix=LONG)
    hidden = material({"fairness": {**_FAIRNESS, "minimum_group_size": 10_000}})
    yield "all suppressed", assemble(hidden), made(9)
    small = {"sensitive": ["group"], "minimum_group_size": 150, "favourable": None}
    spec = {"fairness": small, "gates": []}
    yield "losses alone, withheld", assemble(with_scores(material, spec)), made(9)
    yield "losses that are not finite", assemble(with_scores(material, loss=np.inf)), None
    yield "four attributes", *_attributes(material, ("sex", "age", "race", "state"))


def _of_rounds(material: Material) -> Iterator[Shape]:
    report = assemble(material(clusters=np.arange(60) % 2))
    yield "one round", report, made(1)
    yield "1000 rounds", report, made(1000)
    releases = np.arange(2000, dtype=np.int32) % 50
    clusters = np.arange(2000) % 7
    yield "2000 clients", assemble(_two_thousand(material(releases=releases), clusters)), made(200)


def _of_documents(material: Material) -> Iterator[Shape]:
    document = assemble(material())
    failed = {**document["gates"][1], "outcome": "fail", "attribute": LONG}
    failed["reason"] = "the value exceeds the bound, and " * 20
    spec = {**document["spec"], "gates": [document["spec"]["gates"][1]] * 40}
    gates = {"gates": [failed] * 40, "gate_outcome": "fail", "spec": spec}
    yield "forty gates", {**document, **gates}, made(9)
    limits = [f"{number}: {'what this does not show, ' * 30}" for number in range(60)]
    yield "many limits", {**document, "limits": limits}, None
    yield "one very long verdict", {**document, "verdict": "It says much, and more. " * 400}, None
    name = {**document["experiment"], "name": f"{LONG} Größe"}
    yield "a long name", {**document, "experiment": name}, made(9)


def _many_groups(
    material: Material, groups: int, *, prefix: str = "s"
) -> tuple[dict[str, Any], Series]:
    clients = 2 * groups
    counts = np.zeros((clients, groups, 4), dtype=np.int64)
    counts[np.arange(clients), np.arange(clients) % groups] = (10, 5, 10, 5)
    names = tuple(f"{prefix}{place}" for place in range(groups))
    return assemble(_with_attributes(material(), {"group": names}, {"group": counts})), made(30)


def _with_attributes(made_up: ReportMaterial, values: Any, counts: Any) -> ReportMaterial:
    """The material with other attributes, of whose groups the counts [clients, groups, 4] are."""
    federation = replace(made_up.federation, attributes=values)
    compared = replace(made_up.result.against_constant, rows_by_group={})
    others = {"fairness": counts, "scores": {}, "against_constant": compared}
    result = replace(made_up.result, **others)
    return with_disclosures(replace(made_up, federation=federation, result=result))


def _attributes(material: Material, names: tuple[str, ...]) -> tuple[dict[str, Any], Series]:
    """Attributes of two and three values each, and the combination of the first two."""
    first, second = names[:2]
    crossed = {"sensitive": list(names), "intersections": [[first, second]]}
    fairness = {**_FAIRNESS, **crossed}
    found = material({"federation": _TABLE, "fairness": fairness, "gates": []})
    clients = np.arange(60)
    rows = {name: clients // (place + 1) % (place % 2 + 2) for place, name in enumerate(names)}
    values = {name: tuple(f"{name} {one}" for one in range(max(rows[name]) + 1)) for name in rows}
    both = f"{first}_{second}"
    rows[both] = len(values[second]) * rows[first] + rows[second]
    values[both] = tuple(f"{a}, {b}" for a in values[first] for b in values[second])
    counts = {}
    for name, group in rows.items():
        counts[name] = np.zeros((30, len(values[name]), 4), dtype=np.int64)
        counts[name][np.arange(30), group[30:]] = (3, 2, 3, 2)
    series = {name: made(60, attribute=name, seed=1).gaps[name] for name in rows}
    return assemble(_with_attributes(found, values, counts)), replace(made(60), gaps=series)


def _epsilons(rounds: int) -> Series:
    found = rounds_of_epsilon(rounds)
    gap: dict[str, object] = {"metric": "equalized_odds_difference", "value": 0.25}
    return series_of(found, [Gaps(one.round, "group", [dict(gap)]) for one in found])


def _two_thousand(made_up: ReportMaterial, clusters: Any) -> ReportMaterial:
    federation = replace(made_up.federation, clients=2000, training_clients=2000, rows=20_000)
    return replace(made_up, federation=federation, clusters=clusters, refused=None)
