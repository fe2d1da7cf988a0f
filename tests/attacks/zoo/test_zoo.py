"""Every violation of the zoo is found, and the stage that broke is named."""

from typing import Any

import pytest

from fedaudit.attacks.replay.replay import replay_cell
from fedaudit.native import library
from fedaudit.native.library import _loaded
from fedaudit.privacy.noise.laplace import Sanitiser
from tests.attacks.zoo.missed_violations import MISSED
from tests.attacks.zoo.whole_zoo import ZOO

ROUNDS = 6


def test_the_zoo_is_filled() -> None:
    assert len(ZOO) == 74


def _among_all(name: str) -> object:
    """Those beside the noise run with the slow tests, but for the accountants'."""
    one = ZOO[name]
    quick = one.stage == "accounting" or "path_violations" not in one.module
    return name if quick else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [_among_all(name) for name in ZOO])
def test_the_stage_that_broke_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = ZOO[name]
    cell = one.cell()
    one.sabotage(monkeypatch)
    found = replay_cell(cell, rounds=ROUNDS)
    assert found.broken == one.stage
    checks = [finding.check for finding in found.findings if finding.stage == one.stage]
    assert any(check.startswith(one.check) for check in checks)


@pytest.mark.parametrize("name", MISSED)
def test_what_is_said_to_be_missed_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the documents say less than a replay does."""
    make, sabotage = MISSED[name]
    cell = make()
    sabotage(monkeypatch)
    assert replay_cell(cell, rounds=20).findings == ()


def test_what_a_kernel_does_is_replayed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    if _loaded() is None:
        pytest.skip("the kernels were not built here: there was no C compiler")

    real = vars(Sanitiser)["_numbers"].func

    def halved(self: Any) -> Any:
        noise_scale, *rest = real(self)
        return noise_scale / 2, *rest

    monkeypatch.setattr(library, "_enabled", True)
    cell = ZOO["The scale of Laplace noise is halved"].cell()
    assert replay_cell(cell, rounds=ROUNDS).findings == ()
    monkeypatch.setattr(Sanitiser, "_numbers", property(halved))
    assert replay_cell(cell, rounds=ROUNDS).broken == "noise"
