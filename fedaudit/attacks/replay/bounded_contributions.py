"""Stages clip and sum: what one unit adds, and how far neighbouring sums lie apart."""

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.attacks.replay.passed_through import Floats, StepsPassed, UploadsPassed
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed

_FLOAT32 = 2.0**-23
_GRID = 2.0**-11
"""The widest step of the grid of uploads, in standard deviations of the noise."""


def check_contributions(replayed: Replayed, findings: Findings) -> None:
    """Norms within the clip that was charged, and neighbouring sums within the sensitivity."""
    if replayed.role == "server":
        _check_server(replayed, findings)
    elif replayed.role == "local-steps":
        _check_steps(replayed, findings)
    else:
        _check_uploads(replayed, findings)


def wide(values: Tensor) -> Floats:
    """The numbers as float64 on the host."""
    found: Floats = values.detach().cpu().double().numpy()
    return found


# -- clients' own uploads -------------------------------------------------------------------------


def _check_uploads(replayed: Replayed, findings: Findings) -> None:
    clip = replayed.charged.clip
    for round_ in range(1, replayed.base.rounds + 1):
        for part in replayed.base.passed.uploads[round_]:
            if clip is not None and part.bare is not None:
                slack = upload_slack(replayed, part)
                norms = np.linalg.norm(wide(part.bare) - wide(part.start), axis=-1)
                over = (norms > clip + slack) & part.finite.numpy()
                findings.looked("norm of an update", len(norms))
                for norm in norms[over]:
                    findings.add(
                        "clip", "norm of an update", round_=round_, allowed=clip, measured=norm
                    )
    for round_ in replayed.together:
        pairs = zip(
            replayed.clients_of_uploads(round_),
            replayed.base.passed.uploads[round_],
            replayed.neighbour.passed.uploads[round_],
            strict=True,
        )
        for clients, own, other in pairs:
            unit = clients == replayed.pair.client
            _check_pair(replayed, findings, round_, unit=unit, pair=(own, other))


def _check_pair(
    replayed: Replayed,
    findings: Findings,
    round_: int,
    *,
    unit: NDArray[np.bool_],
    pair: tuple[UploadsPassed, UploadsPassed],
) -> None:
    """`unit` [clients]: the one that differs."""
    own, other = pair
    sent, again = wide(own.uploads), wide(other.uploads)
    same = ((sent == again) | (np.isnan(sent) & np.isnan(again))).all(-1)
    findings.looked("uploads of the others", int((~unit).sum()))
    for moved in np.linalg.norm(sent - again, axis=-1)[~unit & ~same]:
        findings.add(
            "sum", "uploads of the others", round_=round_, allowed=0.0, measured=float(moved)
        )
    clip = replayed.charged.clip
    if clip is None or not unit.any():
        return
    left = wide(own.uploads if own.bare is None else own.bare) - wide(own.start)
    right = wide(other.uploads if other.bare is None else other.bare) - wide(other.start)
    apart = np.linalg.norm(left - right, axis=-1)[unit].max()
    allowed = replayed.sensitivity * clip
    findings.expect(
        "sum",
        "distance of the unit's updates",
        holds=bool(apart <= allowed + 2 * upload_slack(replayed, own)),
        round_=round_,
        allowed=allowed,
        measured=float(apart),
    )


def upload_slack(replayed: Replayed, part: UploadsPassed) -> float:
    """How far an upload may lie from what noise was added to: it is rounded to its grid, and to
    float32, once it has its noise."""
    n = part.uploads.shape[-1]
    sent = wide(part.uploads)
    largest = float(np.abs(sent[np.isfinite(sent)]).max(initial=0.0))
    return math.sqrt(n) * (_FLOAT32 * largest + _GRID * deviation_of_uploads(replayed, part))


def deviation_of_uploads(replayed: Replayed, part: UploadsPassed) -> float:
    """The largest standard deviation of a component of the noise, as it is charged."""
    charged = replayed.charged
    if charged.noise_multiplier is None:
        return 0.0
    if charged.cost_kind == "epsilon":
        return charged.noise_multiplier * (charged.clip or 0.0)
    radius = charged.radius
    if radius is None:
        radius = 0.0 if part.radii is None else float(part.radii.nan_to_num(0.0).max())
    smallest = min(charged.noised_sizes)
    return charged.noise_multiplier * radius / smallest * math.sqrt(smallest + 1)


# -- a trusted server -----------------------------------------------------------------------------


def _check_server(replayed: Replayed, findings: Findings) -> None:
    for round_ in range(1, replayed.base.rounds + 1):
        own, allowed = replayed.base.passed.sums[round_], replayed.clip(round_)
        assert allowed is not None
        for used, clipped in zip(own.clips, own.clipped, strict=True):
            norms = np.linalg.norm(wide(clipped), axis=-1)
            findings.looked("norm of a clipped update", len(norms))
            if len(norms) and norms.max() > allowed:
                findings.add(
                    "clip",
                    "norm of a clipped update",
                    round_=round_,
                    allowed=allowed,
                    measured=float(norms.max()),
                )
            findings.expect(
                "clip",
                "the clip of the round",
                holds=bool((wide(used) == allowed).all()),
                round_=round_,
                allowed=allowed,
                measured=float(wide(used).max(initial=0.0)),
            )
    for round_ in replayed.together:
        own, other = replayed.base.passed.sums[round_], replayed.neighbour.passed.sums[round_]
        allowed = replayed.clip(round_)
        if own.sums is None or other.sums is None or allowed is None:
            continue
        allowed *= replayed.sensitivity
        apart = float(np.linalg.norm(wide(own.sums) - wide(other.sums)))
        findings.expect(
            "sum",
            "distance of neighbouring sums",
            holds=apart <= allowed,
            round_=round_,
            allowed=allowed,
            measured=apart,
        )
        if None not in (own.within, own.taking_part, other.within, other.taking_part):
            counts = [(one.within or 0) - (one.taking_part or 0) / 2 for one in (own, other)]
            moved = abs(counts[0] - counts[1])
            findings.expect(
                "sum",
                "distance of neighbouring counts",
                holds=moved <= replayed.sensitivity / 2,
                round_=round_,
                allowed=replayed.sensitivity / 2,
                measured=moved,
            )


# -- local steps on records -----------------------------------------------------------------------


def _check_steps(replayed: Replayed, findings: Findings) -> None:
    allowed = replayed.charged.clip
    if allowed is None:
        return
    for round_ in range(1, replayed.base.rounds + 1):
        for part in replayed.base.passed.steps[round_]:
            largest = max((float(norms.max(initial=0.0)) for norms in part.single_norms), default=0)
            findings.looked("norm of a record's gradient", sum(map(len, part.single_norms)))
            if largest > allowed:
                findings.add(
                    "clip",
                    "norm of a record's gradient",
                    round_=round_,
                    allowed=allowed,
                    measured=largest,
                )
            findings.expect(
                "clip",
                "the clip of a step",
                holds=all(used == allowed for used in part.clips),
                round_=round_,
                allowed=allowed,
                measured=max(part.clips, default=allowed),
            )
    for round_ in replayed.together:
        pairs = zip(
            replayed.base.passed.steps[round_], replayed.neighbour.passed.steps[round_], strict=True
        )
        for both in pairs:
            _check_step_pair(replayed, findings, round_, pair=both, allowed=allowed)


def _check_step_pair(
    replayed: Replayed,
    findings: Findings,
    round_: int,
    *,
    pair: tuple[StepsPassed, StepsPassed],
    allowed: float,
) -> None:
    own, other = pair
    unit = own.silos == replayed.pair.client
    for left, right in zip(own.sums, other.sums, strict=True):
        apart = np.linalg.norm(wide(left) - wide(right), axis=-1)
        findings.looked("distance of neighbouring sums", len(apart))
        if apart.max(initial=0.0) > allowed:
            findings.add(
                "sum",
                "distance of neighbouring sums",
                round_=round_,
                allowed=allowed,
                measured=float(apart.max()),
            )
        if apart[~unit].max(initial=0.0) > 0:
            findings.add(
                "sum",
                "sums of the other clients",
                round_=round_,
                allowed=0.0,
                measured=float(apart[~unit].max()),
            )
