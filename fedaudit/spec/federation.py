"""Where the clients' data comes from: one class per source."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from fedaudit.spec.base import Text
from fedaudit.spec.images import Femnist, Images
from fedaudit.spec.in_form import InForm
from fedaudit.spec.source_traits import SourceTraits
from fedaudit.spec.sources import (
    Divisor,
    FilePath,
    FileSource,
    Source,
    ValidationFraction,
    below_the_sources,
)
from fedaudit.spec.table import Table

_GROUPS_ARE_DISTRIBUTIONS = (
    "In these synthetic data the group is the distribution that the hypotheses separate, which "
    "in part explains why more hypotheses are fairer; set independent_attribute for the control."
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
        InForm("Parameter vectors", "5, 6; 4, -4.5", "Vectors with semicolons between them."),
    ] = [[5.0, 6.0], [4.0, -4.5]]
    validation_fraction: ValidationFraction = 0.5

    @field_validator("thetas")
    @classmethod
    def _same_length(cls, thetas: list[list[float]]) -> list[list[float]]:
        if len({len(theta) for theta in thetas}) != 1:
            raise ValueError("every parameter vector must have the same length")
        return thetas

    @property
    def traits(self) -> SourceTraits:
        return SourceTraits(
            draws_data=True,
            client_key=None,
            made_up=True,
            target_name="y",
            target="number",
            images=False,
            attributes=frozenset(),
            cuts_attributes=False,
            training_columns=None,
            files=(),
            statistics="none",
            finds_classes=False,
            data_limits=(),
            fairness_limits=(),
        )


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
        return SourceTraits(
            draws_data=True,
            client_key=None,
            made_up=True,
            target_name="y",
            target="number",
            images=False,
            attributes=frozenset({"group"}),
            cuts_attributes=False,
            training_columns=None,
            files=(),
            statistics="none",
            finds_classes=False,
            data_limits=(),
            fairness_limits=() if self.independent_attribute else (_GROUPS_ARE_DISTRIBUTIONS,),
        )


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

    @field_validator("zip_table")
    @classmethod
    def _zip_table_is_relative(cls, path: str | None) -> str | None:
        return None if path is None else below_the_sources(path)

    @field_validator("conditions")
    @classmethod
    def _distinct(cls, conditions: list[int]) -> list[int]:
        if len(set(conditions)) != len(conditions):
            raise ValueError("must not name a condition twice")
        return conditions

    @property
    def traits(self) -> SourceTraits:
        return SourceTraits(
            draws_data=False,
            client_key=self.client_key,
            made_up=False,
            target_name="average_total_payments",
            target="number",
            images=False,
            attributes=None,
            cuts_attributes=False,
            training_columns=None,
            files=self.paths if self.zip_table is None else (*self.paths, self.zip_table),
            statistics="none",
            finds_classes=False,
            data_limits=(),
            fairness_limits=(),
        )


FileSpec = HospitalCharges | Table | Images | Femnist
"""The sources that are kept in files, and can be registered."""

FederationSpec = Annotated[
    SyntheticLinear | SyntheticGroups | FileSpec, Field(discriminator="source")
]
