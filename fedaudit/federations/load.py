"""From a spec to its federation: the one door into this room."""

from pathlib import Path

from fedaudit.federations.checks import check_agreement, is_classification
from fedaudit.federations.federation import Federation
from fedaudit.federations.hospital_charges import load_hospital_charges
from fedaudit.federations.synthetic_groups import load_synthetic_groups
from fedaudit.federations.synthetic_linear import load_synthetic_linear
from fedaudit.federations.table import load_table
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.federation import HospitalCharges, SyntheticGroups, SyntheticLinear


def load_federation(spec: ExperimentSpec, *, sources_dir: Path | None) -> Federation:
    """The clients' data that a spec asks for, checked against the rest of the spec.

    Files are read below `sources_dir`. Raises InvalidInputError with pointers below /federation,
    /fairness or /training.
    """
    federation = _load(spec, sources_dir)
    check_agreement(spec, federation)
    return federation


def _load(spec: ExperimentSpec, sources_dir: Path | None) -> Federation:
    source, sensitive = spec.federation, spec.fairness.sensitive
    if isinstance(source, SyntheticLinear):
        return load_synthetic_linear(source, seed=spec.seed)
    if isinstance(source, SyntheticGroups):
        return load_synthetic_groups(source, sensitive=sensitive, seed=spec.seed)
    if isinstance(source, HospitalCharges):
        return load_hospital_charges(source, sensitive=sensitive, sources_dir=sources_dir)
    return load_table(
        source,
        sensitive=sensitive,
        classification=is_classification(spec),
        sources_dir=sources_dir,
    )
