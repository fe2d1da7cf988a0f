"""Comparisons for people."""

import pytest

from fedaudit.cli.reports import show_comparison
from fedaudit.privacy.accounting.privacy_events import OBSERVERS


@pytest.mark.parametrize(("observer", "words"), OBSERVERS.items())
def test_rows_and_fronts_name_against_whom_they_hold(
    observer: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    guarantee = {"kind": "formal", "mechanism": "gaussian-local"}
    meaning = {"delta": 1e-5, "adjacency": "replace-one", "unit": "client", "guarantee": "formal"}
    row = {"section": "privacy", "figure": "epsilon_max", "attribute": None, "loss": None}
    row |= {**meaning, "observer": observer, "cells": [{"value": 2.0}]}
    axis = {"figure": "epsilon_max", "attribute": None, "better": "lower"}
    front = {**meaning, "family": "epsilon", "observer": observer, "radius": None}
    front |= {"axes": [axis], "front": ["a"], "dominated_by": {}, "left_out": []}
    front["cautions"] = []
    show_comparison(
        {
            "experiments": [{"id": "a", "name": "first", "guarantee": guarantee}],
            "figures": [row],
            "spec_differences": [],
            "warnings": [],
            "fronts": [front],
            "without_front": [],
        }
    )
    shown = capsys.readouterr().out
    assert shown.count(f"against {words}") == 2


def test_a_comparison_fits_the_terminal_and_says_everything_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = "abcde"
    meaning = dict.fromkeys(("delta", "adjacency", "unit", "loss", "observer"))
    interval = {"low": 0.01234, "high": 0.0567, "level": 0.95}
    bound = {"value": 3.00001, "interval": None, "unbounded": False, "best": False}
    none = {**bound, "value": None, "unbounded": True}
    gap = {**bound, "value": 0.02, "interval": interval}
    cost = {"section": "privacy", "figure": "leakage_max", "attribute": None, **meaning}
    gaps = {"section": "fairness", "figure": "equalized_odds_difference", "attribute": "sex"}
    front = {"family": "leakage", "guarantee": "formal", "observer": "server", "unit": "client"}
    front |= {"delta": None, "adjacency": None, "radius": None, "per_layer": False}
    front |= {"front": ["a"], "dominated_by": {"b": ["a"]}, "cautions": ["Models differ."]}
    front["left_out"] = [{"experiment_id": "c", "reason": "no rows"}]
    axes = [
        [{"figure": "leakage_max", "attribute": None}, {"figure": "gap", "attribute": attribute}]
        for attribute in ("sex", "race")
    ]
    gate = {"figure": "leakage_max", "attribute": None, "op": "le"}
    show_comparison(
        {
            "experiments": [
                {"id": one, "name": one, "guarantee": {"kind": "formal", "mechanism": "laplace-l2"}}
                for one in names
            ],
            "figures": [
                {**cost, "guarantee": "formal", "cells": [bound, none, bound, bound, bound]},
                {
                    **meaning,
                    **gaps,
                    "guarantee": None,
                    "cells": [{**gap, "best": True}, *[gap] * 4],
                },
            ],
            "spec_differences": [
                {
                    "path": "gates",
                    "values": [
                        {"present": True, "value": [{**gate, "value": number}]}
                        for number, _ in enumerate(names)
                    ],
                }
            ],
            "warnings": [{"code": "other-data", "message": "Other data."}],
            "fronts": [{**front, "axes": each} for each in axes],
            "without_front": [],
        }
    )
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    assert shown.count("unbounded") == 1
    assert shown.count("3.001") == 4  # a cost is rounded up
    assert shown.count("0.0123 to 0.0567") == 5
    assert shown.count("0.02 *") == 1
    assert shown.count("gate: leakage max, at most") == 3  # once in each table of two experiments
    for once in ("Other data.", "Models differ.", "no. 3 is left out: no rows"):
        assert shown.count(once) == 1
    assert shown.count("no. 2 is dominated by no. 1") == 2
