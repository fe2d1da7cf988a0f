"""The attack `gradient-leakage`: images out of updates, at each noise multiplier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress, source_of
from fedaudit.attacks.attack_files import csv_table
from fedaudit.attacks.gradient_leakage.reconstruction import Reconstruction
from fedaudit.attacks.gradient_leakage.update_match import (
    RECOVERED_BELOW,
    Quality,
    baselines,
    contact_sheet,
    peak_signal_to_noise,
    png,
    quality,
    share_interval,
)
from fedaudit.federations.federation import ClientRows
from fedaudit.networks.stacked_network import ClientNetwork
from fedaudit.randomness import CounterSource, EntropySource, Purpose, Source, wide_uniforms
from fedaudit.reports.sections.attacks import (
    GradientLeakageSection,
    LeakageBaseline,
    LeakageResult,
    ShareInterval,
)
from fedaudit.reproducible import one_thread
from fedaudit.spec.attacks import GradientLeakageSpec
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, first_hypotheses
from fedaudit.training.base.record_steps import features_and_target
from fedaudit.training.base.records import split_of, training_records
from fedaudit.training.mechanisms.base import ClientProtection
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.stacked.clients import without_nan
from fedaudit.training.stacked.stack_round import build_loss

_NUMBERS_AT_ONCE = 1 << 23
"""Numbers of all updates that are attacked side by side: 64 MiB in double precision."""
_NOISE = (1 << 32) - 1
"""The counter of the seed of the attacked clients' noise, which is none of an update's."""
_SHOWN = 64
"""Images in the picture, which thousands would make too large."""
_ONE_IMAGE = "one image has no others to be compared with; attack several"
_ALL_WITHHELD = "no update of the attacked clients was finite, so nothing left them"
_SOME_WITHHELD = "some updates were not finite, and not sent, so that fewer images were attacked"
_NO_ERROR = "the error is 0, so that the ratio is infinite"


@dataclass(frozen=True)
class AttackedImages:
    """Some images of training clients, one for each attacked update."""

    rows: Ints
    """[images]: their places in the run's federation."""
    labels: Ints
    """[images]: their classes."""
    pixels: Floats
    """[images, height, width, channels], from 0 to 1."""


def draw_images(cell: Cell, spec: GradientLeakageSpec, source: Source) -> AttackedImages:
    """Images drawn at random, from as many training clients as there are before one has a second
    turn. Raises ValueError if the data lack them (`feasibility.faults` refuses that before)."""
    federation, features = cell.federation, cell.federation.features
    if not isinstance(features, ClientRows) or features.image is None:
        raise ValueError("these rows are no images")
    turns = []
    trains = training_records(cell.spec, federation).place
    for client in split_of(cell.spec, federation)[0].tolist():
        own = federation.own(client)
        words = source.wide_words(
            purpose=Purpose.ATTACK, round_=0, counters=client, count=own.stop - own.start + 1
        )
        keys = wide_uniforms(words).ravel()
        order = own.start + np.argsort(keys[1:], kind="stable")
        order = order[np.isin(order, trains)]
        turns += [(turn, float(keys[0]), row) for turn, row in enumerate(order.tolist())]
    if len(turns) < spec.images:
        raise ValueError("the training clients have too few images")
    turns.sort(key=lambda one: one[:2])
    rows = np.array([row for _, _, row in turns[: spec.images]])
    pixels = features.values[rows].astype(np.float64) / features.divisor
    labels = federation.target[rows].astype(np.int64)
    return AttackedImages(rows, labels, pixels.reshape(-1, *features.image))


class SingleImageUpdates:
    """The updates that the clients of a cell would send after one local step on one image each."""

    def __init__(
        self, cell: Cell, images: AttackedImages, spec: GradientLeakageSpec, device: torch.device
    ) -> None:
        self._cell, self._per_layer, self._device = cell, spec.per_layer, device
        self._network, self._loss = ClientNetwork(cell.shape, device), build_loss(cell)
        self._features, self._target = features_and_target(cell.federation, images.rows, device)
        self._step_size = cell.spec.training.local.step_size

    def choose(self, theta: Tensor) -> Ints:
        """The hypothesis of theta [k, n] with the smallest loss on each image: [images]."""
        losses = theta.new_zeros(len(theta), len(self._target))
        for own, hypothesis in zip(losses, theta, strict=True):
            self._network.load(hypothesis)
            for image in range(len(own)):
                features, target = self._of(image)
                with torch.no_grad():
                    outputs = self._network.outputs(features)
                own[image] = self._loss.values(outputs, target).sum()
        return without_nan(losses).argmin(0).cpu().numpy()

    def send(
        self, images: Sequence[int], start: Tensor, *, noise_multiplier: float, source: Source
    ) -> Tensor:
        """What is sent from the hypothesis `start` [n] after a step on each of these images,
        float64 [images, n]: start minus upload over the step size, the gradient and the noise.

        `source` is that of a stack of one; the same one draws the same noise, to be scaled, under
        every multiplier. A client whose update is not finite sends nothing.
        """
        uploads = []
        for image in images:
            features, target = self._of(image)
            self._network.load(start)
            self._network.add_gradient(
                features, target, self._loss, onto=self._network.theta, scale=-self._step_size
            )
            uploads.append(self._network.theta.clone())
        sent = torch.stack(uploads)
        if noise_multiplier:
            protection = self._protection(noise_multiplier)
            noise = protection.draw_cell(source, np.array(0), np.array(images)).vectors
            assert noise is not None
            found = protection.protect(start.expand_as(sent)[None], sent[None], noise[None])
            sent = found.uploads[0]
        return (start.double() - sent.double()) / self._step_size

    def _of(self, image: int) -> tuple[Tensor, Tensor]:
        own = slice(image, image + 1)
        return self._features[own], self._target[own]

    def _protection(self, noise_multiplier: float) -> ClientProtection:
        """The run's Laplace mechanism, with its radius and clip, under another multiplier; if it
        has another mechanism that of the paper, with an adaptive radius."""
        spec, per_layer = self._cell.spec, self._per_layer
        privacy = spec.privacy
        if isinstance(privacy, LaplaceL2):
            changes = {"noise_multiplier": noise_multiplier, "per_layer": per_layer}
            privacy = privacy.model_copy(update={**changes, "client_budget": None})
        else:
            privacy = LaplaceL2(
                mechanism="laplace-l2", noise_multiplier=noise_multiplier, per_layer=per_layer
            )
        cell = replace(self._cell, spec=spec.model_copy(update={"privacy": privacy}))
        protection = build_protection([cell], self._device)
        assert isinstance(protection, ClientProtection)
        return protection


@dataclass(frozen=True)
class Reconstructed:
    """What came of the attacked updates at one noise multiplier."""

    noise_multiplier: float
    images: Floats
    """[images, height, width, channels]."""
    labels: Ints
    """[images]; -1 if the attacker needs none."""
    distances: Floats
    """[updates]: how far the reconstruction's update is from the one that was sent."""
    finite: Bools
    """[updates]: whether an update left at all."""
    quality: Quality
    """Of all images."""


def attack_gradient_leakage(
    spec: GradientLeakageSpec, attacked: AttackedRun, *, progress: Progress
) -> AttackOutcome:
    """Reconstructs images of training clients from updates that are made for the attack.

    The updates are those that a local step and the run's mechanism would send from the hypotheses
    before the first round; they are no uploads of the run, and its figures do not change. Raises
    ValueError for data that `feasibility` refuses.
    """
    cell, device = attacked.run.cell, torch.device(attacked.device)
    source = source_of(cell)
    with one_thread():
        images = draw_images(cell, spec, source)
        theta = torch.from_numpy(np.asarray(first_hypotheses(cell), dtype=np.float32)).to(device)
        found = _reconstruct(spec, cell, images, theta, source, progress=progress)
    progress(1.0)
    return AttackOutcome(_section(spec, cell.spec, images, found), _files(images, found))


def _reconstruct(
    spec: GradientLeakageSpec,
    cell: Cell,
    images: AttackedImages,
    theta: torch.Tensor,
    source: Source,
    *,
    progress: Progress,
) -> list[Reconstructed]:
    """The reconstructions at each noise multiplier, of hypotheses `theta` [k, n]."""
    updates, size = SingleImageUpdates(cell, images, spec, theta.device), images.pixels.shape[1:]
    attacker = Reconstruction(cell.shape, size, len(cell.federation.classes), spec)
    # A source of a stack of one that shares no number with the run's noise.
    noise: Source = EntropySource([0])
    if isinstance(source, CounterSource):
        words = source.wide_words(purpose=Purpose.ATTACK, round_=0, counters=_NOISE, count=1)
        noise = CounterSource(words.reshape(1))
    together = max(1, _NUMBERS_AT_ONCE // cell.shape.n)
    chosen = updates.choose(theta)
    parts = [
        own[first : first + together].tolist()
        for own in (np.flatnonzero(chosen == one) for one in np.unique(chosen))
        for first in range(0, len(own), together)
    ]
    count, found, done = len(images.rows), list[Reconstructed](), 0.0
    for multiplier in spec.noise_multipliers:
        guessed, labels = np.zeros_like(images.pixels), np.full(count, -1, dtype=np.int64)
        distances, arrived = np.zeros(count), np.zeros(count, dtype=np.bool_)
        for part in parts:
            share = len(part) / len(chosen) / len(spec.noise_multipliers)
            start = theta[int(chosen[part[0]])]
            targets = updates.send(part, start, noise_multiplier=multiplier, source=noise)
            finite = torch.isfinite(targets).all(-1)
            left = [client for client, sent in zip(part, finite.tolist(), strict=True) if sent]

            def report(own: float, done: float = done, share: float = share) -> None:
                progress(done + share * own)

            if left:
                guess = attacker(
                    start.double(), targets[finite], numbers=left, source=source, progress=report
                )
                guessed[left] = guess.images.cpu().numpy().reshape(-1, *size)
                distances[left] = guess.distances.cpu().numpy()
                arrived[left] = True
                labels[left] = guess.labels.cpu().numpy()
            done += share
        measured = quality(guessed, images.pixels)
        found.append(Reconstructed(multiplier, guessed, labels, distances, arrived, measured))
    return found


def _files(images: AttackedImages, found: Sequence[Reconstructed]) -> dict[str, bytes]:
    """A picture of the first images, each original followed by its reconstructions in the order of
    the multipliers, and a table of every image."""
    shown = [column[:_SHOWN] for column in (images.pixels, *(one.images for one in found))]
    lines = list[dict[str, object]]()
    for one in found:
        for image in range(len(images.rows)):
            left, guessed = bool(one.finite[image]), int(one.labels[image])
            figures = {
                "guessed_label": "" if guessed < 0 else guessed,
                "mse": float(one.quality.mse[image]),
                "psnr": peak_signal_to_noise(float(one.quality.mse[image])),
                "ssim": float(one.quality.ssim[image]),
                "distance": float(one.distances[image]),
            }
            lines.append(
                {
                    "noise_multiplier": one.noise_multiplier,
                    "image": image,
                    "label": int(images.labels[image]),
                    **(figures if left else dict.fromkeys(figures, "")),
                    "left": "yes" if left else "no",
                }
            )
    return {"reconstructions.png": png(contact_sheet(shown)), "images.csv": csv_table(lines)}


def _section(
    spec: GradientLeakageSpec,
    run: ExperimentSpec,
    images: AttackedImages,
    found: Sequence[Reconstructed],
) -> GradientLeakageSection:
    known = baselines(images.pixels) if len(images.rows) > 1 else ()
    results = [_result(one, images, known) for one in found if one.finite.any()]
    done = bool(results)
    by_noise = sorted(results, key=lambda result: result.noise_multiplier)
    protecting = _protecting(by_noise) if done else _ALL_WITHHELD
    why = protecting if isinstance(protecting, str) else None
    nu, nu_interval = (None, None) if isinstance(protecting, str) else protecting
    least = by_noise[0].recovered_share if done else None
    medians = {
        f"{of}_{name}": float(np.median(getattr(one, name)))
        for of, one in zip(("mean_image", "nearest_other"), known, strict=False)
        for name in ("mse", "ssim")
    }
    return GradientLeakageSection(
        status="done" if done else "not-done",
        reason=None if done else _ALL_WITHHELD,
        statement=_statement(spec, run, by_noise, protecting=nu),
        capabilities=_capabilities(spec),
        method=spec.method,
        label=spec.label if spec.compares_updates else None,
        per_layer=spec.per_layer,
        images=spec.images,
        iterations=spec.searched_for,
        restarts=spec.restarts,
        recovered_below=RECOVERED_BELOW,
        baseline=LeakageBaseline(reason=None if known else _ONE_IMAGE, **medians),
        results=results,
        recovered_share=least,
        recovered_share_reason=None if least is not None else why,
        nu_protecting=nu,
        nu_protecting_reason=why,
        nu_protecting_interval=nu_interval,
    )


def _result(one: Reconstructed, images: AttackedImages, known: Sequence[Quality]) -> LeakageResult:
    """`known`: the baselines; empty for one image."""
    errors, likeness = one.quality.mse[one.finite], one.quality.ssim[one.finite]
    error = float(np.median(errors))
    ratio = peak_signal_to_noise(error)
    shares = dict[str, Any]()
    if known:
        least = np.min([baseline.mse for baseline in known], axis=0)[one.finite]
        recovered, better = errors <= RECOVERED_BELOW * least, errors < least
        for name, hits in (("recovered", recovered), ("better", better)):
            shares |= {f"{name}_share": float(hits.mean())}
            shares |= {f"{name}_interval": share_interval(hits)}
    guessed, true = one.labels[one.finite], images.labels[one.finite]
    return LeakageResult(
        noise_multiplier=one.noise_multiplier,
        mse=error,
        psnr=ratio,
        psnr_reason=_NO_ERROR if ratio is None else None,
        ssim=float(np.median(likeness)),
        **shares,
        label_share=None if (guessed < 0).any() else float((guessed == true).mean()),
        withheld=int((~one.finite).sum()),
    )


def _protecting(by_noise: Sequence[LeakageResult]) -> tuple[float, ShareInterval | None] | str:
    """The smallest multiplier from which on nothing was better than its baselines, with the share's
    interval, or why there is none."""
    if by_noise[0].better_share is None:
        return _ONE_IMAGE
    safe = list(
        takewhile(lambda one: one.better_share == 0 and not one.withheld, reversed(by_noise))
    )
    if safe:
        return safe[-1].noise_multiplier, safe[-1].better_interval
    largest = by_noise[-1]
    if largest.withheld:
        return f"at {largest.noise_multiplier:g} {_SOME_WITHHELD}"
    return (
        f"at {largest.noise_multiplier:g}, the largest tried, {largest.better_share:.0%} of "
        "the reconstructions were better than their baselines"
    )


_METHODS = {
    "lbfgs": "by searching for images with the same update ({} steps of L-BFGS at most)",
    "adam-cosine": (
        "by searching for smooth images whose update has the same direction ({} steps of Adam)"
    ),
    "first-layer": "by solving the update of the first layer for its input",
    "features": (
        "by solving the update of the first dense layer for its input, and searching for images "
        "that give it ({} steps of L-BFGS at most)"
    ),
}
_LABELS = {
    "inferred": "It reads the label off the last layer's update.",
    "optimised": "It does not know the labels, and searches for them together with the images.",
}


def _capabilities(spec: GradientLeakageSpec) -> list[str]:
    known = [
        "It sees one client's upload as the server does, and knows which client sent it.",
        "It knows the network, the loss, and the parameters that the client starts from: those "
        "before the first round.",
        "It knows the step size, and that the client takes one step on one image.",
        "It knows neither the noise nor its size, and has no images of the same kind.",
    ]
    if spec.compares_updates:
        known.append(_LABELS[spec.label])
    return known


def _statement(
    spec: GradientLeakageSpec,
    run: ExperimentSpec,
    by_noise: Sequence[LeakageResult],
    *,
    protecting: float | None,
) -> str:
    """The paragraph that an officer reads first; `by_noise` ascends."""
    sentences = [
        f"{_counted(spec.images, 'image')} of training clients were to be reconstructed from "
        f"updates with noise of {_counted(len(spec.noise_multipliers), 'size')}, "
        f"{_METHODS[spec.method].format(spec.searched_for)}.",
        *(_result_words(result) for result in by_noise),
    ]
    if by_noise and by_noise[0].better_share is not None:
        sentences.append(
            "No noise that was tried kept this attacker from doing better than it could without an "
            "update."
            if protecting is None
            else f"From nu = {protecting:g} on no reconstruction was better than what could be "
            "said without an update."
        )
    if isinstance(run.privacy, LaplaceL2) and by_noise:
        own = run.privacy.noise_multiplier
        tried = any(result.noise_multiplier == own for result in by_noise)
        sentences.append(
            f"The run itself has nu = {own:g}{'' if tried else ', which was not tried'}."
        )
    sentences += [
        "A failed attack is no guarantee: another attacker, more steps or other images may "
        "succeed, and none of these figures is an epsilon.",
        "The updates were made for the attack by a local step and the run's mechanism; no upload "
        "of the run was used, and none of its figures changed.",
    ]
    if run.privacy.noise == "release":
        sentences.append("What the attack shows of these clients is covered by no guarantee.")
    return " ".join(sentences)


def _result_words(result: LeakageResult) -> str:
    noise = f"At nu = {result.noise_multiplier:g}"
    if result.recovered_share is None or result.recovered_interval is None:
        return f"{noise} the mean squared error was {result.mse:.2g}."
    interval = result.recovered_interval
    return (
        f"{noise} {result.recovered_share:.0%} were recovered ({interval.level:.0%} interval "
        f"{interval.low:.0%} to {interval.high:.0%}), that is, with at most {RECOVERED_BELOW:g} "
        "times the error of the mean of the other images and of the nearest of them."
        if result.recovered_share
        else f"{noise} none was recovered ({interval.level:.0%} interval up to "
        f"{interval.high:.0%})."
    )


def _counted(number: int, noun: str) -> str:
    return f"{'one' if number == 1 else number} {noun}{'' if number == 1 else 's'}"
