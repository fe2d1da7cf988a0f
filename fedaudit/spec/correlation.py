"""Cohorts that take part once in every block of rounds, and noise that is correlated over rounds.

What a spec may say of them, and what it may not: each refusal is of a case that the proof of
`fedaudit.privacy.noise.banded_noise` does not cover, or that no section of it was written for.
"""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.base import InForm, SpecPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.training import RotationCohort, Training

MOST_BANDS = 64
"""As many vectors of noise are kept; more bands gain little, and cost digits of the noise."""


class Correlation(SpecPart):
    """Noise of a round takes back a part of the noise of rounds before it, so that sums over rounds
    have less (banded matrix mechanism: Choquette-Choo et al. 2023)."""

    kind: Literal["banded"] = "banded"
    """A banded Toeplitz matrix: the square root of that of running sums, cut to `bands`."""
    bands: Annotated[
        Annotated[int, Field(ge=2, le=MOST_BANDS)],
        InForm(
            "Bands of correlated noise",
            hint="With cohorts in rotation, at most their block: less noise on sums over rounds "
            "at the same cost. Empty: independent noise.",
        ),
    ]
    """Rounds, one after the other, that the noise of one is spread over."""


def check_whole_blocks(training: Training) -> Refusals:
    """Refuses rounds that are no whole blocks, where cohorts go by blocks."""
    every = training.block
    fewer = training.rounds // every * every
    if fewer == training.rounds:
        return
    instead = f"{fewer} or {fewer + every}" if fewer else str(every)
    yield refuse_at(
        "/training/rounds",
        f"must be a multiple of cohort.every = {every}: clients are drawn, and charged, for whole "
        f"blocks of rounds; use {instead}",
    )


def check_correlation(
    correlation: Correlation | None, training: Training, *, clip_moves: bool
) -> Refusals:
    """Every reason why the cost of independent noise does not hold for correlated noise."""
    if correlation is None:
        return
    cohort = training.cohort
    if not isinstance(cohort, RotationCohort):
        yield refuse_at(
            "/privacy/correlation",
            "needs clients that take part at most once within its bands, which a cohort by "
            f"{cohort.sampling} sampling does not ensure; use `cohort: {{sampling: rotation, "
            "every: ...}`, or leave it out",
        )
    elif correlation.bands > cohort.every:
        yield refuse_at(
            "/privacy/correlation/bands",
            f"must not exceed cohort.every = {cohort.every}: a client that takes part twice within "
            "the bands moves the same noised sums twice, and would cost more than is charged; "
            "lower it or raise the other",
        )
    if clip_moves:
        yield refuse_at(
            "/privacy/clip",
            "must be a number with `correlation`: noise of earlier rounds had the size of another "
            "clip; give a number, or leave `correlation` out",
        )
    if training.hypotheses > 1:
        yield refuse_at(
            "/training/hypotheses",
            "must be 1 with `correlation`, whose statement, replay and gain are those of one sum a "
            "round; use 1, or leave `correlation` out",
        )
