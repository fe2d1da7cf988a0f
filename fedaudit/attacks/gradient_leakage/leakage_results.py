"""What reconstructions come to: figures for the report, with what they do not show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.gradient_leakage.attacked_images import AttackedImages
from fedaudit.attacks.gradient_leakage.image_quality import peak_signal_to_noise
from fedaudit.attacks.gradient_leakage.leakage_words import capabilities_of, leakage_statement
from fedaudit.attacks.gradient_leakage.recovered_images import (
    RECOVERED_BELOW,
    Baselines,
    Quality,
    baselines_of,
    quality,
    share_interval,
)
from fedaudit.reports.sections.attacks import (
    GradientLeakageSection,
    LeakageBaseline,
    LeakageResult,
    ShareInterval,
)
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.experiment import ExperimentSpec

_ONE_IMAGE = "one image has no others to be compared with; attack several"
_ALL_WITHHELD = "no update of the attacked clients was finite, so nothing left them"
_SOME_WITHHELD = "some updates were not finite and left nobody, so that fewer images were attacked"
_NO_ERROR = "the error is 0, so that the ratio is infinite"


@dataclass(frozen=True)
class Reconstructed:
    """What came of the attacked updates at one noise multiplier."""

    noise_multiplier: float
    images: NDArray[np.float64]
    """[updates, images, height, width, channels]."""
    labels: NDArray[np.int64]
    """[updates, images]; -1 where the attacker needs none."""
    distances: NDArray[np.float64]
    """[updates]: how far the reconstruction's own update is from the one that was sent."""
    finite: NDArray[np.bool_]
    """[updates]: whether an update left at all."""

    @classmethod
    def nothing(cls, noise_multiplier: float, images: AttackedImages) -> "Reconstructed":
        """Before any image is reconstructed."""
        updates = len(images.rows)
        return cls(
            noise_multiplier,
            np.zeros_like(images.pixels),
            np.full(images.rows.shape, -1, dtype=np.int64),
            np.zeros(updates),
            np.zeros(updates, dtype=np.bool_),
        )

    def quality(self, images: AttackedImages) -> Quality:
        """Of each image whose update left, beside its original."""
        own = self.images[self.finite], images.pixels[self.finite]
        return quality(*(part.reshape(-1, *images.size) for part in own))


def leakage_section(
    spec: GradientLeakageSpec,
    run: ExperimentSpec,
    images: AttackedImages,
    found: Sequence[Reconstructed],
) -> GradientLeakageSection:
    """The section of the report."""
    baselines = baselines_of(images.pixels.reshape(-1, *images.size))
    results = [_result(one, images, baselines) for one in found if one.finite.any()]
    done = bool(results)
    by_noise = sorted(results, key=lambda result: result.noise_multiplier)
    nu, nu_reason, nu_interval = _protecting(by_noise) if done else (None, _ALL_WITHHELD, None)
    least = by_noise[0].recovered_share if done else None
    return GradientLeakageSection(
        status="done" if done else "not-done",
        reason=None if done else _ALL_WITHHELD,
        statement=leakage_statement(spec, run, by_noise, protecting=nu),
        capabilities=capabilities_of(spec),
        method=spec.method,
        label=spec.label if spec.compares_updates else None,
        per_layer=spec.per_layer,
        layer_weights=spec.layer_weights,
        images=spec.images,
        images_per_update=spec.images_per_update,
        local_steps=spec.local_steps,
        iterations=spec.searched_for,
        restarts=spec.restarts,
        hypothesis=spec.hypothesis,
        recovered_below=RECOVERED_BELOW,
        baseline=_baseline(baselines),
        results=results,
        recovered_share=least,
        recovered_share_reason=None if least is not None else nu_reason,
        nu_protecting=nu,
        nu_protecting_reason=nu_reason,
        nu_protecting_interval=nu_interval,
    )


def _result(
    one: Reconstructed, images: AttackedImages, baselines: Baselines | None
) -> LeakageResult:
    measured = one.quality(images)
    error = float(np.median(measured.mse))
    ratio = peak_signal_to_noise(error)
    recovered, better = _Share.none(), _Share.none()
    if baselines is not None:
        least = baselines.errors.reshape(images.rows.shape)[one.finite].ravel()
        by_update = (-1, images.rows.shape[1])
        recovered = _Share.of((measured.mse <= RECOVERED_BELOW * least).reshape(by_update))
        better = _Share.of((measured.mse < least).reshape(by_update))
    own, true = one.labels[one.finite], images.labels[one.finite]
    return LeakageResult(
        noise_multiplier=one.noise_multiplier,
        mse=error,
        psnr=ratio,
        psnr_reason=_NO_ERROR if ratio is None else None,
        ssim=float(np.median(measured.ssim)),
        recovered_share=recovered.share,
        recovered_interval=recovered.interval,
        better_share=better.share,
        better_interval=better.interval,
        label_share=None if (own < 0).any() else float((own == true).mean()),
        withheld=int((~one.finite).sum()) * images.rows.shape[1],
    )


@dataclass(frozen=True)
class _Share:
    share: float | None
    interval: ShareInterval | None

    @classmethod
    def none(cls) -> "_Share":
        return cls(None, None)

    @classmethod
    def of(cls, hits: NDArray[np.bool_]) -> "_Share":
        """Of hits: [updates, images]."""
        return cls(float(hits.mean()), share_interval(hits))


def _baseline(baselines: Baselines | None) -> LeakageBaseline:
    if baselines is None:
        return LeakageBaseline(
            mean_image_mse=None,
            nearest_other_mse=None,
            mean_image_ssim=None,
            nearest_other_ssim=None,
            reason=_ONE_IMAGE,
        )
    mean, other = baselines.mean_image, baselines.nearest_other
    return LeakageBaseline(
        mean_image_mse=float(np.median(mean.mse)),
        nearest_other_mse=float(np.median(other.mse)),
        mean_image_ssim=float(np.median(mean.ssim)),
        nearest_other_ssim=float(np.median(other.ssim)),
        reason=None,
    )


def _protecting(
    by_noise: Sequence[LeakageResult],
) -> tuple[float | None, str | None, ShareInterval | None]:
    """The smallest multiplier from which on nothing was better than its baselines, or a reason."""
    if by_noise[0].better_share is None:
        return None, _ONE_IMAGE, None
    protecting: LeakageResult | None = None
    for result in reversed(by_noise):
        if result.better_share != 0 or result.withheld:
            break
        protecting = result
    if protecting is None:
        largest = by_noise[-1]
        if largest.withheld:
            return None, f"at {largest.noise_multiplier:g} {_SOME_WITHHELD}", None
        return (
            None,
            f"at {largest.noise_multiplier:g}, the largest tried, {largest.better_share:.0%} of "
            "the reconstructions were better than their baselines",
            None,
        )
    return protecting.noise_multiplier, None, protecting.better_interval
