"""The kind of each source: the only place where kinds are registered."""

from typing import assert_never

from fedaudit.federations.hospital.hospital_charges import HospitalChargesKind
from fedaudit.federations.images.image_federation import FemnistKind, ImagesKind
from fedaudit.federations.source_kind import FileKind, SourceKind
from fedaudit.federations.synthetic.synthetic_groups import SyntheticGroupsKind
from fedaudit.federations.synthetic.synthetic_linear import SyntheticLinearKind
from fedaudit.federations.table.table_kind import TableKind
from fedaudit.spec.federation import (
    FederationSpec,
    FileSpec,
    HospitalCharges,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.images import Femnist, Images
from fedaudit.spec.sources import FileSource
from fedaudit.spec.table import Table


def source_kind(source: FederationSpec) -> SourceKind:
    """The loader of this source."""
    match source:
        case SyntheticLinear():
            return SyntheticLinearKind(source)
        case SyntheticGroups():
            return SyntheticGroupsKind(source)
        case FileSource():
            return file_kind(source)
        case _:
            assert_never(source)


def file_kind(source: FileSpec) -> FileKind:
    """The loader and profiler of this source."""
    match source:
        case HospitalCharges():
            return HospitalChargesKind(source)
        case Table():
            return TableKind(source)
        case Images():
            return ImagesKind(source)
        case Femnist():
            return FemnistKind(source)
        case _:
            assert_never(source)
