"""The file with a run's trained hypotheses, where these may leave."""

import hashlib
from typing import Any

from fedaudit.networks.parameter_files import encode_hypotheses, tensor_sizes
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_model_stays
from fedaudit.reports.sections.guarantee import guarantee_of
from fedaudit.reports.sections.material import ModelFile, ReportMaterial
from fedaudit.reports.sections.model import ModelSection, TensorSection, model_limits
from fedaudit.runs.model_layout import declared_layout, model_layout
from fedaudit.runs.run import Run
from fedaudit.spec.canonical import spec_hash
from fedaudit.training.base.round_records import FinalResult

_FORMAT = "fedaudit-model-1"


def trained_model(run: Run, result: FinalResult, material: ReportMaterial) -> ModelFile | str:
    """The hypotheses that the report's figures are of, or why they may not leave.

    `material`: that of the report, for the guarantee.
    """
    if material.status != "succeeded":
        return f"the run {material.status}"
    stays = why_model_stays(mechanism_of(run.spec))
    if stays is not None:
        return stays
    shape, hypotheses = run.cell.shape, result.hypotheses
    sizes = tensor_sizes(shape, hypotheses=len(hypotheses))
    tensors = [TensorSection(name=name, shape=list(size)) for name, size in sizes.items()]
    layout = model_layout(run.spec.federation, run.federation)
    card = _card(run, result, material, tensors)
    card["layout"] = declared_layout(layout, run.spec.federation)
    data = encode_hypotheses(shape, hypotheses, metadata=card)
    return ModelFile(
        data,
        ModelSection(
            sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
            round=result.best_round,
            hypotheses=len(hypotheses),
            tensors=tensors,
        ),
        layout,
    )


def _card(
    run: Run, result: FinalResult, material: ReportMaterial, tensors: list[TensorSection]
) -> dict[str, Any]:
    """What the file says of itself beside its layout; of the data, how many inputs there are."""
    spec, guarantee = run.spec, guarantee_of(material)
    return {
        "format": _FORMAT,
        "experiment": {"id": run.experiment_id, "name": run.name, "spec_hash": spec_hash(spec)},
        "round": result.best_round,
        "model": spec.model.model_dump(mode="json"),
        "loss": spec.training.loss,
        "inputs": run.federation.width,
        "tensors": [one.model_dump() for one in tensors],
        "guarantee": {
            "label": guarantee.label,
            "in_force": guarantee.in_force,
            "mechanism": guarantee.mechanism,
            "unit": guarantee.unit,
            "adjacency": guarantee.adjacency,
            "delta": guarantee.delta,
            "observers": list(guarantee.observers),
            "conditions": dict(guarantee.conditions),
            "statement": guarantee.statement,
        },
        "limits": model_limits(spec),
    }
