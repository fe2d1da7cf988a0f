"""Which cell of a row is called the best: only where nothing speaks against it."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedaudit.reports.comparison.compared_reports import compare, compare_reports, with_best
from fedaudit.reports.comparison.fronts import Cell, FigureRow
from fedaudit.reports.figures import parsed
from fedaudit.reports.report import assemble
from tests.reports.reading_documents import documents

GAP = "equalized_odds_difference"


def variant(document, name, **interval):
    """The document of another experiment, with this interval of its gap."""
    made = copy.deepcopy(document)
    made["experiment"]["id"] = name
    if interval:
        metric = made["fairness"][0]["metrics"][GAP]
        metric["value"] = (interval["low"] + interval["high"]) / 2
        known = {"level": 0.95, "method": "score-pairs"}
        metric |= {"interval": {**interval, **known}, "interval_reason": None, "reason": None}
    return made


def best_of(comparison, figure):
    """The ids of the experiments that are called the best by a figure."""
    ids = [one.id for one in comparison.experiments]
    rows = [row for row in comparison.figures if row.figure == figure]
    return [ids[place] for row in rows for place, cell in enumerate(row.cells) if cell.best]


@pytest.fixture
def document(material):
    return assemble(material())


@pytest.fixture
def report(document):
    return parsed(document)


@pytest.fixture
def small(document):
    return variant(document, "small", low=0.1, high=0.2)


@pytest.fixture
def large(document):
    return variant(document, "large", low=0.3, high=0.4)


def test_a_gap_is_the_best_where_its_interval_lies_apart(document, small, large):
    assert best_of(compare([large, small]), GAP) == ["small"]
    touching = variant(document, "touching", low=0.2, high=0.3)
    assert best_of(compare([large, small, touching]), GAP) == []
    unsure = variant(large, "unsure")
    unsure["fairness"][0]["metrics"][GAP] |= {"interval": None, "interval_reason": "few clients"}
    assert best_of(compare([large, small, unsure]), GAP) == []
    assert best_of(compare([small, variant(small, "again")]), GAP) == []


def test_what_could_not_be_chosen_is_never_the_best(small, large):
    bare = copy.deepcopy(small)
    bare["guarantee"] |= {"kind": "none", "label": "none", "in_force": False}
    # Its smaller gap does not stand in the way of one that could be chosen, nor win.
    middle = variant(large, "middle", low=0.22, high=0.25)
    assert best_of(compare([large, bare]), GAP) == []
    assert best_of(compare([large, middle, bare]), GAP) == ["middle"]
    reports = [parsed(one) for one in (large, small)]
    useless = reports[1].utility.model_copy(update={"degenerate": True})
    reports[1] = reports[1].model_copy(update={"utility": useless})
    assert best_of(compare_reports(reports), GAP) == []


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("provenance", {"data_fingerprint": "e" * 64}),
        ("spec", {"fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 3}}}),
    ],
)
def test_gaps_that_mean_something_else_have_no_best(small, large, part, change):
    large[part] |= change
    assert best_of(compare([large, small]), GAP) == []


def test_a_ratio_is_better_when_it_is_larger(document):
    low, high = (variant(document, name) for name in ("low", "high"))
    known = {"level": 0.95, "method": "score-pairs"}
    for made, start in ((low, 0.5), (high, 0.8)):
        interval = {"low": start, "high": start + 0.1, **known}
        metric = {"value": start, "reason": None, "interval": interval, "interval_reason": None}
        made["fairness"][0]["metrics"]["equalized_odds_ratio"] |= metric
    assert best_of(compare([low, high]), "equalized_odds_ratio") == ["high"]


def test_a_cost_is_the_best_only_in_force_and_of_the_same_meaning(material):
    known = documents(material)
    released = known["fixed"]
    released["spec"]["privacy"]["noise"] = "release"
    released["guarantee"]["in_force"] = True
    cheap, dear = variant(released, "cheap"), variant(released, "dear")
    dear["privacy"]["leakage_max"] *= 2
    assert best_of(compare([dear, cheap, variant(known["nothing"], "none")]), "leakage_max") == [
        "cheap"
    ]
    wider = copy.deepcopy(cheap)
    wider["spec"]["privacy"]["radius"] = 20
    assert best_of(compare([dear, wider]), "leakage_max") == []
    simulated = copy.deepcopy(cheap)
    simulated["spec"]["privacy"]["noise"] = "simulation"
    assert best_of(compare([dear, simulated]), "leakage_max") == []


def test_a_cost_that_nothing_bounds_is_called_so(material):
    known = documents(material)
    found = compare([variant(one, name) for name, one in known.items()])
    place = [one.id for one in found.experiments].index("nothing")
    costs = ("leakage_max", "leakage_median", "leakage_per_release", "epsilon_max")
    for row in found.figures:
        flags = [cell.unbounded for cell in row.cells]
        expected = row.figure in (*costs, "log_ratio_max")
        assert flags == [expected and one == place for one in range(len(flags))], row.figure
        assert row.cells[place].reason is not None or not expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it is never changed
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=5))
def test_the_best_never_overlaps_another(report, ends):
    known = {"level": 0.95, "method": "score-pairs"}
    intervals = [{"low": min(pair), "high": max(pair), **known} for pair in ends]
    cells = [Cell(value=one["low"], reason=None, interval=one) for one in intervals]
    meaning = dict.fromkeys(("observer", "delta", "adjacency", "unit", "guarantee", "loss"))
    row = FigureRow(
        section="fairness", figure=GAP, attribute="group", cells=cells, differs=True, **meaning
    )
    [found] = with_best([row], [report] * len(cells))
    apart = [
        all(one.interval.high < other.interval.low for other in cells if other is not one)
        for one in cells
    ]
    assert [cell.best for cell in found.cells] == apart
