"""From a spec to its federation: the one door into this room."""

from pathlib import Path

from fedaudit.federations.checks import check_agreement
from fedaudit.federations.federation import Federation
from fedaudit.federations.hospital_charges import load_hospital_charges
from fedaudit.federations.images import load_femnist, load_images
from fedaudit.federations.intersections import with_intersections
from fedaudit.federations.sources import Files, OpenUpload
from fedaudit.federations.synthetic_groups import load_synthetic_groups
from fedaudit.federations.synthetic_linear import load_synthetic_linear
from fedaudit.federations.table import load_table
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.federation import HospitalCharges, SyntheticGroups, SyntheticLinear
from fedaudit.spec.images import Femnist, Images
from fedaudit.spec.privacy import budget_column


def load_federation(
    spec: ExperimentSpec, *, sources_dir: Path | None, open_upload: OpenUpload | None = None
) -> Federation:
    """The clients' data that a spec asks for, checked against the rest of the spec.

    Files are read below `sources_dir`, or opened by `open_upload` where the spec names an uploaded
    federation. Raises InvalidInputError with pointers below /federation, /fairness or /training.
    """
    federation = _load(spec, Files(sources_dir, open_upload))
    federation = with_intersections(federation, spec.fairness.combinations)
    check_agreement(spec, federation)
    return federation


def _load(spec: ExperimentSpec, files: Files) -> Federation:
    source, fairness = spec.federation, spec.fairness
    if isinstance(source, SyntheticLinear):
        return load_synthetic_linear(source, seed=spec.seed)
    if isinstance(source, SyntheticGroups):
        return load_synthetic_groups(source, sensitive=fairness.sensitive, seed=spec.seed)
    if isinstance(source, HospitalCharges):
        return load_hospital_charges(source, sensitive=fairness.sensitive, files=files)
    if isinstance(source, Images):
        return load_images(source, fairness=fairness, seed=spec.seed, files=files)
    if isinstance(source, Femnist):
        return load_femnist(source, fairness=fairness, seed=spec.seed, files=files)
    return load_table(
        source,
        fairness=fairness,
        classification=spec.classifies,
        seed=spec.seed,
        files=files,
        budgets=budget_column(spec.privacy),
    )
