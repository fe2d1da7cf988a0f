"""Comparisons for people."""

import pytest

from fedaudit.cli.display.comparison_table import show_comparison
from fedaudit.privacy.accounting.observers import OBSERVERS


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
