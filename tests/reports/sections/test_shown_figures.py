"""The figures of a section that pages and the command line show."""

from typing import Annotated

from fedaudit.reports.sections.part import Part, Reasons, Shown, figure_rows


class Example(Part):
    """A section with a figure of each kind."""

    cost: Annotated[float | None, Shown("Cost", "bound", of_everyone="Cost of everyone")]
    other_cost: Annotated[float | None, Shown("Other cost", "bound")]
    loss: Annotated[float | None, Shown("Loss", beside="constant_loss")]
    share: Annotated[float | None, Shown("Share", where_given=True)]
    multiplier: Annotated[float | None, Shown("Multiplier", "exact")] = None
    constant_loss: float | None = None
    reasons: Reasons


VALUES = {
    "cost": 1.00001,
    "other_cost": 2.0,
    "loss": 0.12344,
    "share": 0.5,
    "multiplier": 1.23456,
    "constant_loss": 0.5,
    "reasons": {},
}


def rows(**changes):
    found = figure_rows(Example, {**VALUES, **changes})
    return [(row.label, row.value, row.constant, row.note) for row in found]


def test_figures_stand_in_the_order_of_the_fields_with_bounds_rounded_up():
    assert rows() == [
        ("Cost", "1.001", "", ""),
        ("Other cost", "2", "", ""),
        ("Loss", "0.1234", "0.5", ""),
        ("Share", "0.5", "", ""),
        ("Multiplier", "1.23456", "", ""),
    ]


def test_a_missing_figure_has_its_reason_once():
    why = {"cost": "unbounded", "other_cost": "unbounded", "share": "no classes"}
    found = rows(cost=None, other_cost=None, share=None, reasons=why)
    assert found[0] == ("Cost", "–", "", "unbounded")
    assert [label for label, *_ in found[1:]] == ["Loss", "Multiplier"]


def test_figures_that_an_earlier_report_lacks_are_left_out():
    earlier = {name: one for name, one in VALUES.items() if name != "multiplier"}
    assert "multiplier" not in [row.name for row in figure_rows(Example, earlier)]


def test_costs_of_everyone_are_labelled_so():
    [first, *_] = figure_rows(Example, VALUES, charges_everyone=True)
    assert first.label == "Cost of everyone"
