"""Data in images: clients are writers, or whoever else made them."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.source_traits import SourceTraits
from fedaudit.spec.sources import FileSource


class Rotate(SpecPart):
    """Some clients' images are turned by 90 degrees counter-clockwise (Galli et al., section 5.3).

    All images of such a client turn, so images must be square; labels stay as they are.
    """

    probability: Annotated[float, Field(ge=0, le=1)]
    """Of a client, drawn with the experiment's seed; the attribute `rotated` is `yes` or `no`."""


ClassCount = Annotated[int, Field(ge=2, le=1000)]


class Images(FileSource):
    """A NumPy archive (.npz) of images `x`, labels `y` and who made them.

    `x` is [images, height, width], [images, height, width, channels] or [images, features] (square
    where the number of features is), of bytes or of floats from 0 to 1. `y` holds whole numbers or
    texts. A sensitive attribute is `rotated`, where `rotate` is given, or else an array of the
    archive with one entry per image.
    """

    source: Literal["images"]
    client_key: Text = "writer"
    """The array that names each image's client, by whole numbers or texts."""
    classes: ClassCount | None = None
    """How many classes there are: labels are whole numbers from 0 to one less, and classes are
    called by them ("0", "1", ...) whatever else the archive says, so that rules about even and odd
    labels are easily written. Null: labels that are whole numbers are positions in the archive's
    array `classes`, which names them, if it has one; otherwise the classes are the distinct labels
    of the data."""
    rotate: Rotate | None = None

    @property
    def traits(self) -> SourceTraits:
        return SourceTraits(
            draws_data=self.rotate is not None,
            client_key=self.client_key,
            made_up=False,
            target_name="y",
            target="class",
            images=True,
            attributes=None,
            cuts_attributes=True,
            training_columns=None,
            files=self.paths,
            statistics="none",
            finds_classes=self.classes is None,
            data_limits=(),
            fairness_limits=(),
        )


class Femnist(FileSource):
    """Handwriting in the format of LEAF (Caldas et al. 2018): one JSON file or a zip of them.

    Clients are the users. An image of 784 values is 28 by 28; another square number is square.
    """

    source: Literal["femnist"]
    classes: ClassCount = 62
    """How many classes there are, called "0", "1", ...; labels run from 0 to one less."""
    rotate: Rotate | None = None

    @property
    def traits(self) -> SourceTraits:
        return SourceTraits(
            draws_data=self.rotate is not None,
            client_key="user",
            made_up=False,
            target_name="y",
            target="class",
            images=True,
            attributes=None,
            cuts_attributes=False,
            training_columns=None,
            files=self.paths,
            statistics="none",
            finds_classes=False,
            data_limits=(),
            fairness_limits=(),
        )
