"""Stage noise, of clients that protect their own uploads."""

import numpy as np
import torch

from fedaudit.attacks.replay.bounded_contributions import upload_slack, wide
from fedaudit.attacks.replay.passed_through import Floats, UploadsPassed
from fedaudit.attacks.replay.probed_noise import drawn_noise
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.noise.laplace import layer_slices

_CLOSE = 1e-6


def check_noise_of_uploads(replayed: Replayed, findings: Findings) -> None:
    """What was drawn for a client and a round is what was added, at the scale charged."""
    if replayed.charged.noise_multiplier is None:
        return
    for round_ in range(1, replayed.base.rounds + 1):
        radii = _charged_radii(replayed, round_)
        whose = replayed.clients_of_uploads(round_)
        for clients, part in zip(whose, replayed.base.passed.uploads[round_], strict=True):
            drawn = drawn_noise(replayed, round_, clients)
            if part.noise is not None:
                findings.expect(
                    "noise",
                    "noise drawn for this round",
                    holds=np.array_equal(part.noise, drawn),
                    round_=round_,
                    allowed="what was drawn for this round and its clients",
                    measured="other noise",
                )
            own = np.array([radii[client] for client in clients.tolist()])
            _check_radii(replayed, findings, round_, part, own)
            _check_added(replayed, findings, round_, part=part, drawn=drawn, radii=own)


def _charged_radii(replayed: Replayed, round_: int) -> dict[int, Floats]:
    """By client, the radii of its release by the ledger, [layers]; NaN where it has none."""
    record = replayed.base.records[round_ - 1]
    rows = record.radii.reshape(len(record.subjects), -1)
    released = record.outcomes == Outcome.RELEASED
    return {
        int(client): np.where(own, row, np.nan)
        for client, row, own in zip(record.subjects, rows, released, strict=True)
    }


def _check_radii(
    replayed: Replayed, findings: Findings, round_: int, part: UploadsPassed, radii: Floats
) -> None:
    """A radius is the public one, or the norm of the client's own update, clipped."""
    charged, sizes = replayed.charged, replayed.laplace_sizes
    if part.radii is None or sizes is None:
        return
    lengths = np.stack(
        [
            np.linalg.norm(wide(part.updated[:, own] - part.start[:, own]), axis=-1)
            for own in layer_slices(sizes)
        ],
        axis=-1,
    )
    if charged.clip is not None:
        whole = np.linalg.norm(lengths, axis=-1, keepdims=True)
        lengths = lengths * np.minimum(1.0, charged.clip / np.maximum(whole, 1e-300))
    expected = np.maximum(lengths, charged.radius_floor or 0.0)
    if charged.radius is not None:
        expected = np.full_like(lengths, charged.radius)
    for own, right in zip(radii, expected, strict=True):
        if np.isfinite(own).all():
            findings.expect(
                "noise",
                "radius",
                holds=bool(np.allclose(own, right, rtol=_CLOSE, atol=0)),
                round_=round_,
                allowed=right.tolist(),
                measured=own.tolist(),
            )


def _check_added(
    replayed: Replayed,
    findings: Findings,
    round_: int,
    *,
    part: UploadsPassed,
    drawn: Floats,
    radii: Floats,
) -> None:
    """What a release has beyond its bare update is what was drawn, at the scale charged."""
    charged, bare = replayed.charged, part.bare
    if bare is None:
        bare = _bare(part, charged.clip)
    added = wide(part.uploads) - wide(bare)
    multiplier = charged.noise_multiplier or 0.0
    scale = np.full(added.shape, multiplier * (charged.clip or 0.0))
    sizes = replayed.laplace_sizes
    if sizes is not None:
        for layer, own in enumerate(layer_slices(sizes)):
            scale[:, own] = multiplier / sizes[layer] * radii[:, [layer]]
    slack = upload_slack(replayed, part)
    for one, expected, finite in zip(added, scale * drawn, part.finite.tolist(), strict=True):
        if not finite or not np.isfinite(expected).all():
            continue
        size = float(np.linalg.norm(expected))
        if slack > size / 4:
            continue
        findings.expect(
            "noise",
            "noise added",
            holds=bool(np.linalg.norm(one - expected) <= slack + _CLOSE * size),
            round_=round_,
            allowed=f"a vector of length {size:.6g}, as it was drawn and charged",
            measured=(
                f"one of length {np.linalg.norm(one):.6g}, "
                f"{np.linalg.norm(one - expected):.3g} away"
            ),
        )


def _bare(part: UploadsPassed, clip: float | None) -> torch.Tensor:
    """The clipped updates on top of their starts, where noise cannot be left out."""
    update = wide(part.updated) - wide(part.start)
    if clip is not None:
        norms = np.linalg.norm(update, axis=-1, keepdims=True)
        update = update * np.minimum(1.0, clip / np.maximum(norms, 1e-300))
    return torch.from_numpy(wide(part.start) + update)
