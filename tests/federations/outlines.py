"""Whether what a plan is made from is what loading gives, in each way in which it comes about."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fedaudit.federations.federation import Federation
from fedaudit.federations.load import file_kind, load_federation, outline_federation
from fedaudit.federations.reading.source_files import Files
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.table import table_federation
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Groups
from fedaudit.spec.sources import FileSource

Found = Federation | list[FieldError]


def assert_outlined(
    spec: ExperimentSpec, sources: Path, folder: Path, *, registered: ExperimentSpec | None = None
) -> None:
    """Read whole and only checked, as a stream, and from the index of what was registered: the
    same federation but for its features, or the same errors.

    `registered`: whose columns the index holds; the spec itself unless given.
    """
    expected = found(lambda: load_federation(spec, sources_dir=sources))
    assert_same(found(lambda: outline_federation(spec, files=Files(sources))), expected)
    with patch.object(table_federation, "WORTH_A_MAP", 1):
        assert_same(found(lambda: outline_federation(spec, files=Files(sources))), expected)
        index = written_index(registered or spec, sources, folder)
        files = Files(sources, open_index=lambda _: at(index))
        assert_same(found(lambda: outline_federation(spec, files=files)), expected)


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


def written_index(registered: ExperimentSpec, sources: Path, folder: Path) -> Path | None:
    """The index that a worker would write; None where it could not."""
    source = registered.federation
    assert isinstance(source, FileSource)
    place = folder / "index"
    place.unlink(missing_ok=True)
    asked = LoadRequest(
        fairness=Groups(sensitive=registered.fairness.sensitive, edges=registered.fairness.edges),
        files=Files(sources),
    )
    with patch.object(table_federation, "WORTH_A_MAP", 1), place.open("wb") as file:
        try:
            file_kind(source).write_index(asked, file)  # type: ignore[arg-type]
        except InvalidInputError:
            return None
    return place


@contextmanager
def at(place: Path | None) -> Iterator[Path | None]:
    """A place as `Files.open_index` gives it."""
    yield place
