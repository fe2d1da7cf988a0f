"""The labels of a NumPy archive of images as classes."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.classes import MAX_CLASSES
from fedaudit.federations.errors import error_at
from fedaudit.federations.images.array_levels import column, levels_in, read_levels
from fedaudit.federations.reading.npz import NumpyArchive

_CLASSES = "/federation/classes"


def read_labels(
    archive: NumpyArchive, classes: int | None, images: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Each image's class, and the classes; see `Images.classes` for the order of precedence.

    Raises InvalidInputError naming the row, or at /federation/classes.
    """
    where = archive.file.pointer
    labels = column(archive, "y", rows=images, where=where)
    if labels.dtype.kind not in "iuUS":
        raise archive.file.fault(
            f"holds an array 'y' of type {labels.dtype}; labels are whole numbers or texts"
        )
    whole = labels.dtype.kind in "iu"
    if classes is not None and not whole:
        raise error_at(_CLASSES, "labels are texts; leave it out, so that the data's are counted")
    if classes is None and not (whole and "classes" in archive.names):
        return _distinct_labels(archive, labels)
    names = (
        tuple(str(label) for label in range(classes)) if classes else _class_names(archive, where)
    )
    outside = (labels < 0) | (labels >= len(names))
    if outside.any():
        raise archive.fault(
            "y",
            int(np.argmax(outside)),
            where,
            f"is no whole number from 0 to {len(names) - 1}",
            "correct it, or set `classes` to the number of classes",
        )
    return labels.astype(np.int64), names


def _distinct_labels(
    archive: NumpyArchive, labels: NDArray[np.generic]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    where = archive.file.pointer
    levels = levels_in(archive, "y", labels, where=where, numeric=True)
    if levels.missing:
        row = int(np.argmax(levels.codes < 0))
        raise archive.fault("y", row, where, "is empty", "name the class or leave the image out")
    _check_class_count(archive, len(levels.values))
    return levels.codes, levels.values


def _class_names(archive: NumpyArchive, where: str) -> tuple[str, ...]:
    """The archive's own names of the classes, in the order of the labels."""
    count = (archive.header("classes").shape or (1,))[0]
    levels = read_levels(archive, "classes", rows=count, where=where)
    if levels.missing or len(levels.values) != count:
        raise archive.file.fault(
            "holds an array 'classes' in which a name is empty or comes twice; name every class "
            "once, or set `classes` to their number"
        )
    _check_class_count(archive, count)
    return tuple(levels.values[code] for code in levels.codes)


def _check_class_count(archive: NumpyArchive, count: int) -> None:
    if not 2 <= count <= MAX_CLASSES:
        raise archive.file.fault(
            f"has {count} classes; a classifier needs from 2 to {MAX_CLASSES} of them"
        )
