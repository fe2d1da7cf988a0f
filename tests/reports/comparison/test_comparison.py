"""Reports side by side: what may stand in one row, on one front, and what is warned of."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedaudit.reports.comparison.compared_reports import (
    Comparison,
    best_cell,
    compare_reports,
    difference_rows,
    spec_differences,
)
from fedaudit.reports.comparison.fronts import Cell, FigureMeaning, dominated_by
from fedaudit.reports.figures import parsed
from fedaudit.reports.report import assemble
from tests.reports.reading_documents import FIXED, contradicted, documents, gaussian

GAP = "equalized_odds_difference"


def compare(found, **axes):
    """The comparison of report documents."""
    return compare_reports([parsed(one) for one in found], **axes)


def named(id_, document):
    """The document as that of another experiment."""
    made = copy.deepcopy(document)
    made["experiment"]["id"] = id_
    return made


def with_figures(id_, document, *, leakage, gap, loss):
    """The document with other figures on the axes of its front."""
    made = named(id_, document)
    made["privacy"]["leakage_max"] = leakage
    made["fairness"][0]["metrics"][GAP]["value"] = gap
    made["utility"]["validation_loss"] = loss
    return made


def row(comparison, figure, **key):
    """The only row of a figure with these properties."""
    [found] = [
        one
        for one in comparison.figures
        if one.figure == figure and all(getattr(one, name) == key[name] for name in key)
    ]
    return found


def values(found):
    return [cell.value for cell in found.cells]


@pytest.fixture
def document(material):
    return assemble(material())


@pytest.fixture
def of_each_kind(material):
    return [named(id_, document) for id_, document in documents(material).items()]


@pytest.fixture
def comparison(of_each_kind):
    return compare(of_each_kind)


def codes(comparison):
    return {one.code for one in comparison.warnings}


def test_columns_are_the_experiments_as_asked_for(comparison, of_each_kind):
    for one, document in zip(comparison.experiments, of_each_kind, strict=True):
        assert one.id == document["experiment"]["id"]
        assert one.verdict == document["verdict"]
        assert one.answer.model_dump() == document["answer"]
        assert one.guarantee.kind == document["guarantee"]["kind"]
        assert (one.gate_outcome is None) == (one.gate_outcome_reason is not None)
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison
    for found in comparison.figures:
        assert len(found.cells) == 4
        assert all(cell.value is not None or cell.reason for cell in found.cells), found


def test_leakages_of_different_guarantees_have_rows_of_their_own(comparison):
    heuristic = row(comparison, "leakage_max", guarantee="heuristic")
    formal = row(comparison, "leakage_max", guarantee="formal")
    assert values(heuristic) == [pytest.approx(2.4), None, None, None]
    assert values(formal) == [None, pytest.approx(2.4), None, None]
    assert "means something else" in heuristic.cells[1].reason
    assert "no mechanism" in heuristic.cells[2].reason
    assert "epsilon with a delta" in heuristic.cells[3].reason


def test_spec_differences_are_paths_with_every_value(of_each_kind):
    paths = {one.path: one.values for one in compare(of_each_kind).spec_differences}
    assert not {"seed", "name"} & paths.keys()
    stated = {path: [one.value for one in cells] for path, cells in paths.items()}
    assert stated["privacy.mechanism"] == ["laplace-l2", "laplace-l2", "none", "gaussian-central"]
    assert stated["fairness.sensitive"] == [["group"], ["group"], [], ["group"]]
    assert stated["privacy.radius"] == ["adaptive", 2.0, None, None]
    assert [one.present for one in paths["privacy.radius"]] == [True, True, False, False]
    assert compare([of_each_kind[0], of_each_kind[0]]).spec_differences == []


def test_what_is_warned_of(of_each_kind, material):
    adaptive, fixed, nothing, with_epsilon = of_each_kind
    assert codes(compare([adaptive, named("again", adaptive)])) == set()
    assert codes(compare([adaptive, fixed])) == {"other-guarantee", "other-radius"}
    assert "other-noise" in codes(compare([adaptive, with_epsilon]))
    assert codes(compare([adaptive, nothing])) == {"other-guarantee", "other-outcome"}
    elsewhere = named("elsewhere", adaptive)
    elsewhere["provenance"]["data_fingerprint"] = "e" * 64
    assert codes(compare([adaptive, elsewhere])) == {"other-data"}
    records = named("records", with_epsilon)
    records["guarantee"] |= {"unit": "record", "adjacency": "replace-one"}
    of_two_units = {"other-unit", "other-adjacency", "early-end"}
    assert codes(compare([with_epsilon, records])) == of_two_units
    larger = assemble(material({"training": {**adaptive["spec"]["training"], "loss": "mse"}}))
    larger["data"]["parameters"] += 1
    assert codes(compare([adaptive, larger])) == {"other-loss", "other-model"}


# -- fronts ----------------------------------------------------------------------------------------


def test_one_front_for_each_kind_of_guarantee(comparison):
    kinds = [(one.family, one.guarantee, one.observer) for one in comparison.fronts]
    assert kinds == [
        ("leakage", "heuristic", "server"),
        ("leakage", "formal", "server"),
        ("epsilon", "formal", "final_model"),
    ]
    assert [one.front for one in comparison.fronts] == [["adaptive"], ["fixed"], ["gaussian"]]
    [left] = comparison.without_front
    assert (left.experiment_id, "no guarantee" in left.reason) == ("nothing", True)
    for one in comparison.fronts:
        assert [axis.section for axis in one.axes] == ["privacy", "fairness", "utility"]
        assert one.axes[0].figure == ("leakage_max" if one.family == "leakage" else "epsilon_max")


def test_a_simulated_run_dominates_none_whose_guarantee_is_in_force(document):
    released = with_figures("released", document, leakage=3, gap=0.2, loss=0.8)
    released["spec"]["privacy"]["noise"] = "release"
    simulated = with_figures("simulated", document, leakage=1, gap=0.1, loss=0.1)
    worse = with_figures("worse", document, leakage=4, gap=0.3, loss=0.9)
    [front] = compare([released, simulated, worse]).fronts
    assert front.front == ["released", "simulated"]
    assert front.dominated_by == {"worse": ["released", "simulated"]}


def test_ratios_and_accuracy_are_better_when_higher(document):
    worse, better = named("worse", document), named("better", document)
    for made, ratio, accuracy in ((worse, 0.5, 0.7), (better, 0.9, 0.8)):
        made["fairness"][0]["metrics"]["equalized_odds_ratio"]["value"] = ratio
        made["utility"] |= {"accuracy": accuracy, "reasons": {}}
    [front] = compare([worse, better], fairness="equalized_odds_ratio").fronts
    assert [axis.better for axis in front.axes] == ["lower", "higher", "higher"]
    figures = [axis.figure for axis in front.axes]
    assert figures == ["leakage_max", "equalized_odds_ratio", "accuracy"]
    assert front.front == ["better"]
    [front] = compare([worse, better], utility="validation_loss").fronts
    assert front.axes[2].figure == "validation_loss"


def test_costs_and_losses_that_mean_something_else_have_rows_and_fronts_of_their_own(
    material, document
):
    fixed = assemble(material(FIXED))
    wider = {**FIXED["privacy"], "radius": 20, "noise_multiplier": 2}
    mean = {"training": {**document["spec"]["training"], "loss": "mse"}}
    for one, other, figure, key, meanings in (
        (fixed, assemble(material({"privacy": wider})), "leakage_max", "radius", [2, 20]),
        (document, assemble(material(mean)), "validation_loss", "loss", ["rmse", "mse"]),
        (gaussian(material), gaussian(material, delta=1e-5), "epsilon_max", "delta", [1e-3, 1e-5]),
    ):
        found = compare([named("one", one), named("other", other)])
        assert [getattr(front, key) for front in found.fronts] == meanings
        assert [front.front for front in found.fronts] == [["one"], ["other"]]
        if key != "radius":
            at = {key: meanings[0]} | ({"observer": None} if key == "delta" else {})
            assert values(row(found, figure, **at))[1] is None
            assert "means something else" in row(found, figure, **at).cells[1].reason
    assert "other-delta" in codes(found)


def test_two_observers_give_two_fronts(material):
    document = gaussian(material)
    [of_model] = document["privacy"]["epsilon"]
    document["privacy"]["epsilon_planned"] = None
    document["privacy"]["epsilon"].append({**of_model, "observer": "server", "value": 9.0})
    found = compare([named("one", document), named("other", document)])
    assert [(one.observer, one.experiments[0].values[0]) for one in found.fronts] == [
        ("final_model", of_model["value"]),
        ("server", 9.0),
    ]


def test_who_lacks_a_figure_is_left_out_with_the_reason(document):
    lacking = with_figures("lacking", document, leakage=1, gap=None, loss=0.1)
    lacking["fairness"][0]["metrics"][GAP]["reason"] = "no rows"
    unmeasured = named("unmeasured", document)
    unmeasured["fairness"] = []
    [front] = compare([named("one", document), lacking, unmeasured]).fronts
    assert front.front == ["one"]
    assert {one.experiment_id: one.reason for one in front.left_out} == {
        "lacking": "no rows",
        "unmeasured": "'group' is not one of its sensitive attributes",
    }


def with_interval(id_, document, low, high, figure=GAP):
    """The document of another experiment, with this interval of a gap or ratio."""
    made = named(id_, document)
    interval = {"low": low, "high": high, "level": 0.95, "method": "score-pairs"}
    known = {"value": (low + high) / 2, "reason": None, "interval_reason": None}
    made["fairness"][0]["metrics"][figure] |= {**known, "interval": interval}
    return made


def best_of(comparison, figure):
    """The ids of the experiments that are called the best by a figure."""
    ids = [one.id for one in comparison.experiments]
    rows = [row for row in comparison.figures if row.figure == figure]
    return [ids[place] for row in rows for place, cell in enumerate(row.cells) if cell.best]


@pytest.fixture
def small(document):
    return with_interval("small", document, 0.1, 0.2)


@pytest.fixture
def large(document):
    return with_interval("large", document, 0.3, 0.4)


def test_a_gap_is_the_best_where_its_interval_lies_apart(document, small, large):
    assert best_of(compare([large, small]), GAP) == ["small"]
    touching = with_interval("touching", document, 0.2, 0.3)
    unsure = named("unsure", large)
    unsure["fairness"][0]["metrics"][GAP] |= {"interval": None, "interval_reason": "few clients"}
    narrow = copy.deepcopy(with_interval("narrow", document, 0.25, 0.26))
    narrow["fairness"][0]["metrics"][GAP]["interval"]["level"] = 0.01
    for other in (touching, unsure, narrow, named("again", small)):
        assert best_of(compare([large, small, other]), GAP) == []


def test_what_could_not_be_chosen_is_never_the_best(document, small, large):
    bare = copy.deepcopy(small)
    bare["guarantee"] |= {"kind": "none", "label": "none", "in_force": False}
    # Its smaller gap does not stand in the way of one that could be chosen, nor win.
    middle = with_interval("middle", document, 0.22, 0.25)
    assert best_of(compare([large, bare]), GAP) == []
    assert best_of(compare([large, middle, bare]), GAP) == ["middle"]
    hiding = copy.deepcopy(small)
    hiding["fairness"][0]["doubt"] = "whom it leaves out"
    assert best_of(compare([large, hiding]), GAP) == []
    reports = [parsed(one) for one in (large, small)]
    useless = reports[1].utility.model_copy(update={"degenerate": True})
    reports[1] = reports[1].model_copy(update={"utility": useless})
    assert best_of(compare_reports(reports), GAP) == []


PERSONAL = {"kind": "ditto", "personalised": "tuned", "sent": "updates", "of_common_model": False}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("provenance", {"data_fingerprint": "e" * 64}),
        ("spec", {"fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 3}}}),
        ("spec", {"federation": {"missing_values": ["", "g3"]}}),
        # Of clients' own models, and not of the common one.
        ("utility", {"method": PERSONAL}),
    ],
)
def test_gaps_that_mean_something_else_have_no_best(small, large, part, change):
    large[part] |= change
    assert best_of(compare([large, small]), GAP) == []


@pytest.mark.parametrize(("column", "best"), [("age", ["small"]), ("y", [])])
def test_losses_are_measured_by_the_scale_of_the_target_alone(document, column, best):
    small, large = (
        with_interval(name, document, *ends)
        for name, ends in (("small", (0.1, 0.2)), ("large", (0.3, 0.4)))
    )
    for one, scale in ((small, 1), (large, 10)):
        one["spec"]["federation"] |= {"target": "y", "scale": {column: scale}}
    assert best_of(compare([large, small]), GAP) == best


def test_a_ratio_is_better_when_it_is_larger(document):
    ratio = "equalized_odds_ratio"
    made = [with_interval(f"from {low}", document, low, low + 0.1, ratio) for low in (0.5, 0.8)]
    assert best_of(compare(made), ratio) == ["from 0.8"]


def test_a_cost_is_the_best_only_in_force_and_of_the_same_meaning(material):
    known = documents(material)
    released = known["fixed"]
    released["spec"]["privacy"]["noise"] = "release"
    cheap, dear = named("cheap", released), named("dear", released)
    dear["privacy"]["leakage_max"] *= 2
    others = [dear, cheap, named("none", known["nothing"])]
    assert best_of(compare(others), "leakage_max") == ["cheap"]
    found = compare([dear, contradicted(cheap)])
    assert best_of(found, "leakage_max") == []
    assert "alarm" in codes(found)
    assert [one.front for one in found.fronts] == [["dear"]]
    assert "raised an alarm" in found.without_front[0].reason
    for setting, value in (("radius", 20), ("noise", "simulation")):
        other = copy.deepcopy(cheap)
        other["spec"]["privacy"][setting] = value
        assert best_of(compare([dear, other]), "leakage_max") == []


def test_a_cost_that_nothing_bounds_is_called_so(comparison):
    found = comparison
    place = [one.id for one in found.experiments].index("nothing")
    costs = ("leakage_max", "leakage_median", "leakage_per_release", "epsilon_max")
    for row in found.figures:
        flags = [cell.unbounded for cell in row.cells]
        expected = row.figure in (*costs, "log_ratio_max")
        assert flags == [expected and one == place for one in range(len(flags))], row.figure
        assert row.cells[place].reason is not None or not expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it is never changed
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=5))
def test_the_best_never_overlaps_another(document, ends):
    known = {"level": 0.95, "method": "score-pairs"}
    intervals = [{"low": min(pair), "high": max(pair), **known} for pair in ends]
    cells = [Cell(value=one["low"], reason=None, interval=one) for one in intervals]
    meaning = dict.fromkeys(("observer", "delta", "adjacency", "unit", "guarantee", "loss"))
    row = FigureMeaning(section="fairness", figure=GAP, attribute="group", **meaning)
    found = best_cell(row, cells, [parsed(document)] * len(cells))
    apart = [
        all(one.interval.high < other.interval.low for other in cells if other is not one)
        for one in cells
    ]
    assert [place == found for place in range(len(cells))] == apart


GATE = {"figure": "equalized_odds_difference", "attribute": "race", "op": "le", "value": 0.1}
COST = {"figure": "leakage_max", "op": "le", "value": 40.0, "allow_heuristic": True}
RULE = {"group": {"sex": "f"}, "op": "ge", "value": 1}


@pytest.mark.parametrize(
    ("one", "other", "rows"),
    [
        (
            {"gates": [GATE, COST]},
            {"gates": [{**GATE, "value": 0.05}, COST]},
            {"gates[0].value": ("0.1", "0.05")},
        ),
        (
            {"seed": 1, "fairness": {"favourable": [RULE, RULE], "sensitive": ["sex", "race"]}},
            {"seed": 1, "fairness": {"favourable": [{**RULE, "value": 2}], "sensitive": None}},
            {
                "fairness.favourable[0].value": ("1", "2"),
                "fairness.favourable[1].group.sex": ("f", None),
                "fairness.favourable[1].op": ("ge", None),
                "fairness.favourable[1].value": ("1", None),
                "fairness.sensitive": ("sex, race", "not set"),
            },
        ),
    ],
    ids=["gates", "fairness"],
)
def test_each_setting_that_differs_has_a_row_of_scalars(one, other, rows):
    found = difference_rows(spec_differences([one, other]))
    assert {row.label: row.cells for row in found} == rows


POINTS = st.integers(1, 4).flatmap(
    lambda axes: st.lists(
        st.lists(st.integers(0, 3).map(float), min_size=axes, max_size=axes), max_size=12
    )
)


@given(POINTS)
def test_a_point_that_is_nowhere_better_and_not_equal_is_dominated(points):
    found = dominated_by(points)
    for i, one in enumerate(points):
        for j, other in enumerate(points):
            beats = one != other and all(a <= b for a, b in zip(one, other, strict=True))
            assert (i in found[j]) == beats
