"""What an attack leaves for those who may read confidential figures: images, and their errors."""

import csv
import io
from collections.abc import Sequence

import numpy as np

from fedaudit.attacks.gradient_leakage.attacked_images import AttackedImages
from fedaudit.attacks.gradient_leakage.image_quality import peak_signal_to_noise
from fedaudit.attacks.gradient_leakage.leakage_results import Reconstructed
from fedaudit.attacks.gradient_leakage.picture import contact_sheet, png
from fedaudit.attacks.gradient_leakage.recovered_images import quality

PICTURES, FIGURES = "reconstructions.png", "images.csv"
_SHOWN = 64
"""Images in the picture, which thousands would make too large to look at."""
_HEADER = (
    "noise_multiplier",
    "update",
    "image",
    "label",
    "guessed_label",
    "mse",
    "psnr",
    "ssim",
    "distance",
    "left",
)


def leakage_files(images: AttackedImages, found: Sequence[Reconstructed]) -> dict[str, bytes]:
    """A picture of the first images, each original followed by its reconstructions in the order of
    the multipliers, and a table of every image."""
    columns = [images.pixels, *(one.images for one in found)]
    shown = [column.reshape(-1, *images.size)[:_SHOWN] for column in columns]
    return {PICTURES: png(contact_sheet(shown)), FIGURES: _table(images, found)}


def _table(images: AttackedImages, found: Sequence[Reconstructed]) -> bytes:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_HEADER)
    flat = images.pixels.reshape(-1, *images.size)
    updates, together = images.rows.shape
    for one in found:
        measured = quality(one.images.reshape(flat.shape), flat)
        for row, (update, image) in enumerate(np.ndindex(updates, together)):
            left = bool(one.finite[update])
            error, guessed = float(measured.mse[row]), int(one.labels[update, image])
            ratio = peak_signal_to_noise(error)
            figures = (
                "" if guessed < 0 else guessed,
                repr(error),
                "" if ratio is None else repr(ratio),
                repr(float(measured.ssim[row])),
                repr(float(one.distances[update])),
            )
            lines.writerow(
                (
                    repr(one.noise_multiplier),
                    update,
                    image,
                    int(images.labels[update, image]),
                    *(figures if left else ("",) * len(figures)),
                    "yes" if left else "no",
                )
            )
    return text.getvalue().encode()
