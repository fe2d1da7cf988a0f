"""Whether what a plan is made from is what loading gives."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np

from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation, outline_federation
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec

Found = Federation | list[FieldError]


def assert_outlined(spec: ExperimentSpec, sources: Path) -> None:
    """What a plan is made from is the same federation but for its features, or the same errors."""
    expected = found(lambda: load_federation(spec, sources_dir=sources))
    assert_same(found(lambda: outline_federation(spec, files=Files(sources))), expected)


def found(load: Callable[[], Federation]) -> Found:
    """What loading gives: data, or errors in their order."""
    try:
        return load()
    except InvalidInputError as error:
        return list(error.errors)


def assert_same(outline: Found, expected: Found) -> None:
    """Equal but for features that an outline has not."""
    if isinstance(expected, list) or isinstance(outline, list):
        assert outline == expected
        return
    assert (outline.is_outline, expected.is_outline) == (True, False)
    assert outline.features.shape == expected.features.shape  # type: ignore[union-attr]
    assert_alike(outline, expected, but=("features", "is_outline"))


def assert_alike(found: Federation, expected: Federation, *, but: tuple[str, ...] = ()) -> None:
    """Equal in every field but these."""
    for field in fields(Federation):
        if field.name in ("attributes", *but):
            continue
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other
    for mine, theirs in zip(found.attributes, expected.attributes, strict=True):
        assert (mine.name, mine.values) == (theirs.name, theirs.values)
        np.testing.assert_array_equal(mine.codes, theirs.codes)
