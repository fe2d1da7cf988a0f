"""The page on guarantees: its figures are those of the accountants, and what it names exists."""

import re
from pathlib import Path

from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled, RandomAllocated
from fedaudit.privacy.noise.adaptive_clipping import update_noise_multiplier
from tests.privacy.accounting.spending import spent

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
STATED = " ".join(PAGE.split())


def epsilon(name, adjacency, event, count):
    return spent(event, count, by=name, adjacency=adjacency)


def test_what_coins_and_a_fixed_cohort_cost():
    coins = PoissonSampled(0.1, Gaussian(2.0))
    rdp, pld = (epsilon(name, "add-or-remove-one", coins, 100) for name in ("rdp", "pld"))
    assert (
        f"coins of rate 0.1 cost {at_most(rdp, digits=4)} (`rdp`) or {at_most(pld, digits=4)} "
        "(`pld`) under zero-out" in STATED
    )
    blocks = RandomAllocated(10, Gaussian(2.0))
    rdp_, pld_ = (epsilon(name, "add-or-remove-one", blocks, 10) for name in ("rdp", "pld"))
    assert (
        f"by random allocation cost {at_most(rdp_, digits=4)} (`rdp`) or "
        f"{at_most(pld_, digits=4)} (`pld`)" in STATED
    )
    half = epsilon("rdp", "add-or-remove-one", coins, 50)
    assert (
        f"ends at 50 shows {at_most(half, digits=4)}; {at_most(rdp, digits=4)} is proven" in STATED
    )


def test_what_ten_uploads_cost():
    rdp, pld = (epsilon(name, "replace-one", Gaussian(8.0), 10) for name in ("rdp", "pld"))
    said = f"delta 1e-5 cost {at_most(rdp, digits=4)} (`rdp`) or {at_most(pld, digits=4)} (`pld`)."
    assert said in STATED


def test_the_share_of_a_moving_clip_and_the_number_of_orders():
    updates = update_noise_multiplier(noise_multiplier=2.0, count_noise=5.0)
    assert f"the updates get {updates:.4f}" in STATED
    assert f"at each of {len(RDP_ORDERS)} orders" in STATED
    assert f"up to {len(RDP_ORDERS)} delta" in STATED


def test_the_tests_that_it_names_exist():
    """That its files exist is tested with those of every page, in tests/test_docs.py."""
    named = re.findall(r"`(tests/[a-z_/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) >= 15
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
