"""Where the clients' data comes from: one class per source."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.base import InForm, SpecPart, Text
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.sources import (
    Divisor,
    FilePath,
    FileSource,
    Range,
    Scale,
    Scales,
    Source,
    SourceTraits,
    ValidationFraction,
)
from fedaudit.spec.table import Standardise, Table


class Rotate(SpecPart):
    """Some clients' images are turned by 90 degrees counter-clockwise (Galli et al., section 5.3).

    All images of such a client turn, so images must be square; labels stay as they are.
    """

    probability: Annotated[float, Field(ge=0, le=1)]
    """Drawn for each client with the experiment's seed; attribute `rotated` is `yes` or `no`."""


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
        return _of_images(
            self,
            client_key=self.client_key,
            cuts_attributes=True,
            finds_classes=self.classes is None,
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
        return _of_images(self, client_key="user", cuts_attributes=False, finds_classes=False)


def _of_images(
    source: Images | Femnist, *, client_key: str, cuts_attributes: bool, finds_classes: bool
) -> SourceTraits:
    return SourceTraits(
        draws_data=source.rotate is not None,
        client_key=client_key,
        made_up=False,
        target_name="y",
        target="class",
        images=True,
        cuts_attributes=cuts_attributes,
        files=source.paths,
        statistics="none",
        finds_classes=finds_classes,
    )


_GROUPS_ARE_DISTRIBUTIONS = (
    "In these synthetic data the group is the distribution that the hypotheses separate, which "
    "in part explains why more hypotheses are fairer; set independent_attribute for the control."
)


def _generated(
    attributes: frozenset[str], *, fairness_limits: tuple[str, ...] = ()
) -> SourceTraits:
    """The traits of data that are drawn from a distribution of numbers."""
    return SourceTraits(
        draws_data=True,
        client_key=None,
        made_up=True,
        target_name="y",
        target="number",
        attributes=attributes,
        files=(),
        statistics="none",
        fairness_limits=fairness_limits,
    )


RowsPerClient = Annotated[int, Field(ge=1, le=100_000), InForm("Rows of each client", "10")]


class SyntheticLinear(Source):
    """Linear data around one parameter vector per distribution (Galli et al., section 5.1)."""

    source: Literal["synthetic-linear"]
    clients: Annotated[int, Field(ge=2, le=1_000_000), InForm("Clients", "200")] = 200
    rows_per_client: RowsPerClient = 10
    thetas: Annotated[
        list[Annotated[list[float], Field(min_length=1, max_length=1000)]],
        Field(min_length=1, max_length=100),
        InForm("Parameter vectors", "[5, 6], [4, -4.5]"),
    ] = [[5.0, 6.0], [4.0, -4.5]]
    validation_fraction: ValidationFraction = 0.5

    def faults(self) -> Refusals:
        if len({len(theta) for theta in self.thetas}) != 1:
            yield refuse_at(
                "/federation/thetas", "every parameter vector must have the same length"
            )

    @property
    def traits(self) -> SourceTraits:
        return _generated(frozenset())


class SyntheticGroups(Source):
    """A majority and a minority whose targets differ by a shift (SN Computer Science 2023)."""

    source: Literal["synthetic-groups"]
    clients_per_group: Annotated[
        list[Annotated[int, Field(ge=1, le=1_000_000)]],
        Field(min_length=2, max_length=2),
        InForm("Clients of each group", "800, 200", "A majority and a minority."),
    ] = [800, 200]
    rows_per_client: RowsPerClient = 10
    shift: Annotated[float, InForm("Shift", "15", "Of the second group's target.")] = 15.0
    independent_attribute: Annotated[
        bool, InForm("Groups at random", hint="The control: groups do not depend on the data.")
    ] = False
    """The control: group membership is drawn independently of the client's distribution."""
    validation_fraction: ValidationFraction = 0.5

    @property
    def traits(self) -> SourceTraits:
        explained = () if self.independent_attribute else (_GROUPS_ARE_DISTRIBUTIONS,)
        return _generated(frozenset({"group"}), fairness_limits=explained)


class HospitalCharges(FileSource):
    """Inpatient charges of the Centers for Medicare and Medicaid Services (section 5.2)."""

    source: Literal["hospital-charges"]
    client_key: Literal["provider_id", "zip"] = "zip"
    conditions: Annotated[
        list[Annotated[int, Field(ge=1, le=999)]], Field(min_length=1, max_length=100)
    ] = [194, 690, 292, 392]
    """Diagnosis-related group codes; the position of a code is its `service_index`."""
    zip_table: FilePath | None = None
    """ZIP coordinates, needed where the file itself has none."""
    scale: dict[Text, Divisor] = {
        "longitude": 100.0,
        "latitude": 10.0,
        "average_total_payments": 10_000.0,
    }
    standardise: Annotated[Standardise | None, Field(exclude_if=lambda how: how is None)] = None
    """`ranges`: -2 and 2 are the ends of the United States and of the list of conditions, as is
    publicly known; farther places count as at the ends. Null: as `scale` says."""

    def faults(self) -> Refusals:
        yield from super().faults()
        if len(set(self.conditions)) != len(self.conditions):
            yield refuse_at("/federation/conditions", "must not name a condition twice")
        if self.standardise not in (None, "ranges"):
            yield refuse_at(
                "/federation/standardise",
                f"the ranges of hospital charges are known: use `ranges`, not `{self.standardise}`",
            )

    @property
    def declared_scales(self) -> Scales:
        """How features and target are scaled, as far as it is declared."""
        if self.standardise is None:
            return dict[str, Scale](self.scale)
        last = max(1, len(self.conditions) - 1)
        return {
            **self.scale,
            "service_index": Range(low=0, high=last),
            "longitude": Range(low=-125, high=-65),
            "latitude": Range(low=24, high=50),
        }

    @property
    def traits(self) -> SourceTraits:
        return SourceTraits(
            draws_data=False,
            client_key=self.client_key,
            made_up=False,
            target_name="average_total_payments",
            target="number",
            files=self.paths if self.zip_table is None else (*self.paths, self.zip_table),
            statistics="none",
        )


FileSpec = HospitalCharges | Table | Images | Femnist
"""The sources that are kept in files, and can be registered."""

FederationSpec = Annotated[
    SyntheticLinear | SyntheticGroups | FileSpec, Field(discriminator="source")
]
