"""What a report says of reconstructing images from updates."""

from collections.abc import Sequence
from typing import Literal


from fedaudit.reports.document.attacks.attack_section import AttackSection
from fedaudit.reports.document.part import Part
from fedaudit.spec.attacks.gradient_leakage_spec import (
    AttackedHypothesis,
    LabelKnowledge,
    LayerWeights,
    LeakageMethod,
)


class ShareInterval(Part):
    """Of a share of images, by exact limits over updates (Clopper and Pearson 1934)."""

    level: float
    low: float
    high: float


class LeakageBaseline(Part):
    """How near the set's own images come to one that is unknown: medians over attacked images.

    Both know more of the set than an attacker without an update does.
    """

    mean_image_mse: float | None
    """Of the mean of the other attacked images; null where there is no other."""
    nearest_other_mse: float | None
    """Of whichever other attacked image is nearest."""
    mean_image_ssim: float | None
    nearest_other_ssim: float | None
    reason: str | None
    """Why there are none."""


class LeakageResult(Part):
    """The reconstructions at one noise multiplier."""

    noise_multiplier: float
    mse: float
    """Mean squared error of pixels from 0 to 1: the median over images."""
    psnr: float | None
    """Peak signal-to-noise ratio of that error in decibels; null where the error is 0."""
    psnr_reason: str | None
    ssim: float
    """Structural similarity (Wang et al. 2004): the median over images."""
    recovered_share: float | None
    """Share of images whose reconstruction has at most `recovered_below` times the error of either
    baseline; null where there are no baselines."""
    recovered_interval: ShareInterval | None
    better_share: float | None
    """Share of images whose reconstruction has a smaller error than both baselines."""
    better_interval: ShareInterval | None
    label_share: float | None
    """Share of images whose label the attacker has right; null where it needs none."""
    withheld: int
    """Attacked images whose update was not finite, so that nothing left; in no other figure."""


class GradientLeakageSection(AttackSection):
    """Reconstructions of training clients' images, at each noise multiplier."""

    kind: Literal["gradient-leakage"] = "gradient-leakage"
    method: LeakageMethod
    label: LabelKnowledge | None
    """How it came by the labels; null where it needs none."""
    per_layer: bool
    layer_weights: LayerWeights
    images: int
    images_per_update: int
    local_steps: int
    iterations: int
    """Steps of each search; 0 where nothing is searched for."""
    restarts: int
    hypothesis: AttackedHypothesis
    recovered_below: float
    """An image counts as recovered at this share of the smaller baseline's error."""
    baseline: LeakageBaseline | None
    results: list[LeakageResult]
    """In the order of the noise multipliers; empty where the attack was not done."""
    recovered_share: float | None
    """That of the smallest noise multiplier tried, in `results`."""
    recovered_share_reason: str | None
    nu_protecting: float | None
    """The smallest noise multiplier tried from which on no reconstruction was better than its
    baselines. It speaks of this attacker and these images alone."""
    nu_protecting_reason: str | None
    nu_protecting_interval: ShareInterval | None
    """Of the share of images that this attacker would better the baselines for at that noise."""


def protecting_against_all(
    sections: Sequence[GradientLeakageSection],
) -> tuple[float | None, str | None]:
    """The smallest noise multiplier tried that no attacker of several got past, or null's reason.

    It counts only where every one of them was protected against.
    """
    if not sections:
        return None, "no attacker tried to reconstruct images"
    for section in sections:
        if section.nu_protecting is None:
            return None, f"{section.method}: {section.nu_protecting_reason}"
    return max(section.nu_protecting or 0.0 for section in sections), None
