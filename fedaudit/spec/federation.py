"""Where the clients' data comes from: one class per source."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from fedaudit.spec.base import SpecPart, Text

Scale = Annotated[float, Field(gt=0)]
ValidationFraction = Annotated[float, Field(gt=0, lt=1)]


def _below_the_sources(path: str) -> str:
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\", "~")) or "://" in path or ":" in parts[0]:
        raise ValueError("must be a relative path below the service's sources folder")
    if ".." in parts:
        raise ValueError("must not contain '..'")
    return path


class _Source(SpecPart):
    validation_fraction: ValidationFraction = 0.3
    """Share of the clients held out for validation, drawn with the experiment's seed."""


class SyntheticLinear(_Source):
    """Linear data around one parameter vector per distribution (Galli et al., section 5.1)."""

    source: Literal["synthetic-linear"]
    clients: Annotated[int, Field(ge=2, le=1_000_000)] = 200
    rows_per_client: Annotated[int, Field(ge=1, le=100_000)] = 10
    thetas: Annotated[
        list[Annotated[list[float], Field(min_length=1, max_length=1000)]],
        Field(min_length=1, max_length=100),
    ] = [[5.0, 6.0], [4.0, -4.5]]
    validation_fraction: ValidationFraction = 0.5

    @field_validator("thetas")
    @classmethod
    def _same_length(cls, thetas: list[list[float]]) -> list[list[float]]:
        if len({len(theta) for theta in thetas}) != 1:
            raise ValueError("every parameter vector must have the same length")
        return thetas


class SyntheticGroups(_Source):
    """A majority and a minority whose targets differ by a shift (SN Computer Science 2023)."""

    source: Literal["synthetic-groups"]
    clients_per_group: Annotated[
        list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=2, max_length=2)
    ] = [800, 200]
    rows_per_client: Annotated[int, Field(ge=1, le=100_000)] = 10
    shift: float = 15.0
    independent_attribute: bool = False
    """The control: group membership is drawn independently of the client's distribution."""
    validation_fraction: ValidationFraction = 0.5


class _FileSource(_Source):
    path: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """Below the service's sources folder."""
    scale: dict[Text, Scale] = {}
    """Public divisors per column; features and target are divided by them before training."""

    _path_is_relative = field_validator("path")(_below_the_sources)


class HospitalCharges(_FileSource):
    """Inpatient charges of the Centers for Medicare and Medicaid Services (section 5.2)."""

    source: Literal["hospital-charges"]
    client_key: Literal["provider_id", "zip"] = "zip"
    conditions: Annotated[
        list[Annotated[int, Field(ge=1, le=999)]], Field(min_length=1, max_length=100)
    ] = [194, 690, 292, 392]
    """Diagnosis-related group codes; the position of a code is its `service_index`."""
    zip_table: (
        Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    """ZIP coordinates, needed where the file itself has none."""
    scale: dict[Text, Scale] = {
        "longitude": 100.0,
        "latitude": 10.0,
        "average_total_payments": 10_000.0,
    }

    @field_validator("zip_table")
    @classmethod
    def _zip_table_is_relative(cls, path: str | None) -> str | None:
        return None if path is None else _below_the_sources(path)

    @field_validator("conditions")
    @classmethod
    def _distinct(cls, conditions: list[int]) -> list[int]:
        if len(set(conditions)) != len(conditions):
            raise ValueError("must not name a condition twice")
        return conditions


class Table(_FileSource):
    """Any CSV or Parquet file with a client key, features and a target."""

    source: Literal["table"]
    client_key: Text
    target: Text
    features: Literal["all"] | Annotated[list[Text], Field(min_length=1, max_length=2000)] = "all"
    """Column names, or all columns but the client key, the target, the sensitive attributes
    and those under `drop`."""
    drop: Annotated[list[Text], Field(max_length=2000)] = []
    positive: Text | None = None
    """For a two-class target: the value that counts as the positive class."""


FederationSpec = Annotated[
    SyntheticLinear | SyntheticGroups | HospitalCharges | Table, Field(discriminator="source")
]
