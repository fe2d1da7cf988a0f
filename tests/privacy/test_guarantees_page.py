"""The page on guarantees: its figures are those of the accountants, and what it names exists."""

import re
from pathlib import Path

import pytest

from fedaudit.privacy.accounting.privacy_events import FixedSizeSampled, Gaussian, PoissonSampled
from fedaudit.privacy.accounting.rdp import RDP_ORDERS
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.privacy.noise.adaptive_clipping import update_noise_multiplier
from tests.privacy.accounting.accountant_choice import accountant

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
TOLD = " ".join(PAGE.split())
DELTA = 1e-5


def epsilon(name, adjacency, event, count):
    return accountant(name, adjacency=adjacency).compose(event, count).epsilon(DELTA)


def test_what_coins_and_a_fixed_cohort_cost():
    coins = PoissonSampled(0.1, Gaussian(2.0))
    rdp, pld = (epsilon(name, "add-or-remove-one", coins, 100) for name in ("rdp", "pld"))
    assert (
        f"coins of rate 0.1 cost {at_most(rdp, digits=4)} (`rdp`) or {at_most(pld, digits=4)} "
        "(`pld`) under zero-out" in TOLD
    )
    fixed = epsilon("rdp", "replace-one", FixedSizeSampled(1000, 100, Gaussian(2.0)), 100)
    assert f"in every round cost {at_most(fixed, digits=4)} under replace-one" in TOLD
    half = epsilon("rdp", "add-or-remove-one", coins, 50)
    assert f"ends at 50 shows {at_most(half, digits=4)}; {at_most(rdp, digits=4)} is proven" in TOLD


def test_what_ten_uploads_cost():
    rdp, pld = (epsilon(name, "replace-one", Gaussian(8.0), 10) for name in ("rdp", "pld"))
    wrong = epsilon("rdp", "add-or-remove-one", Gaussian(8.0), 10)
    assert (
        f"delta 1e-5 cost {at_most(rdp, digits=4)} (`rdp`) or {at_most(pld, digits=4)} (`pld`); "
        f"counting one clip in place of two would say {at_most(wrong, digits=4)}" in TOLD
    )


def test_the_share_of_a_moving_clip_and_the_number_of_orders():
    updates = update_noise_multiplier(noise_multiplier=2.0, count_noise=5.0)
    assert f"the updates get {updates:.4f}" in TOLD
    assert f"at each of {len(RDP_ORDERS)} orders" in TOLD
    assert f"up to {len(RDP_ORDERS)} delta" in TOLD


@pytest.mark.parametrize(("page", "least"), [("guarantees.md", 16), ("testing.md", 90)])
def test_the_tests_that_it_names_exist(page, least):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = re.findall(r"(tests/[a-z_/]+\.py)(?:::(test_\w+))?", text)
    assert len(named) >= least
    for path, name in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, f"{path}::{name}"


@pytest.mark.parametrize("path", ["models/repositories/epsilon_budgets.py", "docs/verification.md"])
def test_the_files_that_it_names_exist(path):
    assert path.removeprefix("docs/") in PAGE
    assert (ROOT / path).is_file()
