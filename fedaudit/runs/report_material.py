"""What the report of a run is made from, the file of its model, and the report, checked."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, assert_never

import numpy as np

from fedaudit.arrays import Floats
from fedaudit.fairness.noised_counts import ExactCounts, NoisedCounts, Rounder
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.hospital import FEATURES
from fedaudit.federations.mapped import EVERY_NUMBER, Scales
from fedaudit.ledger.rows import Outcome, charges_report
from fedaudit.networks.parameter_files import encode_hypotheses, tensor_sizes
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_model_stays
from fedaudit.reports.clients import client_columns
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.fairness import FiguresDisagreeError
from fedaudit.reports.sections.guarantee import guarantee_of
from fedaudit.reports.sections.material import (
    FederationFacts,
    FinalFigures,
    ModelFile,
    Progressed,
    ReportMaterial,
    unfollowed,
)
from fedaudit.reports.sections.other_runs import (
    ModelSection,
    SweepSection,
    TensorSection,
    chosen_among,
    model_limits,
)
from fedaudit.reports.sections.provenance import provenance
from fedaudit.reports.sections.published_fairness import counted_sections
from fedaudit.runs.blocks import publish_counts
from fedaudit.runs.run import Run
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.federation import (
    FederationSpec,
    Femnist,
    HospitalCharges,
    Images,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.table import Feature, Table
from fedaudit.stored import LedgerRow
from fedaudit.training.base.records import split_of, training_records
from fedaudit.training.base.rounds import FinalResult, has_diverged, reported_end

Layout = dict[str, Any]

_INSTEAD = "GET /v1/experiments/{id}/model-layout states them, under the scope federations:read"
_CLASSES = f"the classes are those that the data have, and no spec declares them: {_INSTEAD}"
_FEATURES = f"the features are all columns of the data, and the spec names none: {_INSTEAD}"


def model_layout(source: FederationSpec, federation: Federation) -> Layout:
    """The whole layout, as JSON. Confidential: it has the classes and columns of the data.

    `features`: in the order of the inputs, null of images. Each has its `column`, and where they
    apply: `category` (the input is 1 for it, 0 for others), `categories` (it is the position among
    them), `scale`, and `fill` (for empty cells). `image`: height, width, channels and divisor.
    `classes`: in the order of the outputs, null of a number, which is the output times
    `target_scale`, plus `target_mean` where one is declared. `positive`: the second of two classes,
    where the spec names it.
    """
    rows, features, image = federation.features, None, None
    if isinstance(rows, ClientRows):
        shape = None if rows.image is None else list(rows.image)
        image = {"height_width_channels": shape, "divisor": rows.divisor}
    else:
        features = [*_features(source, federation.feature_names)]
    return {
        "format": "fedaudit-layout-1",
        "features": features,
        "image": image,
        "standardise": getattr(source, "standardise", None),
        "target": federation.target_name,
        "target_scale": None if federation.classes else federation.target_scale,
        **({"target_mean": federation.target_mean} if federation.target_mean else {}),
        "classes": list(federation.classes) or None,
        "positive": source.positive if isinstance(source, Table) else None,
        "reasons": {},
    }


def declared_layout(layout: Layout, source: FederationSpec) -> Layout:
    """What of a layout follows from the spec alone; the rest is null, with a reason."""
    reasons = {}
    if layout["classes"] is not None and source.traits.finds_classes:
        reasons["classes"] = _CLASSES
    if isinstance(source, Table) and source.features == "all":
        reasons["features"] = _FEATURES
    return {**layout, **dict.fromkeys(reasons), "reasons": reasons}


def _features(source: FederationSpec, names: tuple[str, ...]) -> Iterator[Layout]:
    match source:
        case Table():
            # Not validated: a file's own names may be longer than a spec would allow.
            every = [Feature.model_construct(name=name) for name in names]
            for item in every if source.features == "all" else source.features:
                feature = Feature(name=item) if isinstance(item, str) else item
                yield from _inputs(feature, source.scale)
        case HospitalCharges():
            for name in names:
                codes = [str(code) for code in source.conditions] if name == FEATURES[0] else None
                scales = source.declared_scales
                scale = scales.get(name, scales.get(EVERY_NUMBER))
                yield _input(name, categories=codes, scale=scale)
        case Images() | Femnist() | SyntheticLinear() | SyntheticGroups():
            for name in names:
                yield _input(name)
        case _:
            assert_never(source)


def _inputs(feature: Feature, scales: Scales) -> Iterator[Layout]:
    """Those of a column: one, or one for each of its categories."""
    own, fill = scales.get(feature.name), feature.fill
    if feature.categories is None:
        yield _input(feature.name, scale=own or scales.get(EVERY_NUMBER), fill=fill)
        return
    match feature.encoding:
        case "ordinal":
            yield _input(feature.name, categories=feature.categories, scale=own, fill=fill)
        case "one-hot":
            for category in feature.categories:
                yield _input(feature.name, category=category, fill=fill)
        case _:
            assert_never(feature.encoding)


def _input(column: str, **more: Any) -> Layout:
    scale = more.get("scale")
    if isinstance(scale, int | float):
        more["scale"] = {"divisor": scale}
    elif scale is not None:
        more["scale"] = scale.model_dump(mode="json")
    return {"column": column, **{name: one for name, one in more.items() if one is not None}}


_GUARANTEED = (
    *("label", "in_force", "mechanism", "unit", "adjacency", "delta"),
    *("observers", "conditions", "statement"),
)
"""What the file states of the guarantee."""


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
    decision = None
    if run.cell.threshold is not None:  # of two classes: the second one is predicted above it
        decision = {"threshold": run.cell.threshold, "output_above": run.cell.cutoff}
    layout = {**model_layout(run.spec.federation, run.federation), "decision": decision}
    spec, guarantee, stated = run.spec, guarantee_of(material), chosen_among(material.sweep)
    if spec.repeats > 1:
        stated = [f"That is of one of {spec.repeats} seeds; each costs anew."]
    statement = " ".join([guarantee.statement, *stated])
    guarantee = guarantee.model_copy(update={"statement": statement})
    card: dict[str, Any] = {
        "format": "fedaudit-model-1",
        "experiment": {"id": run.experiment_id, "name": run.name, "spec_hash": spec_hash(spec)},
        "round": result.best_round,
        "model": spec.model.model_dump(mode="json"),
        "loss": spec.training.loss,
        "inputs": run.federation.width,
        "tensors": [one.model_dump() for one in tensors],
        "guarantee": {name: one for name, one in vars(guarantee).items() if name in _GUARANTEED},
        "limits": model_limits(spec, chosen_by_losses=material.chosen_by_losses),
        "layout": declared_layout(layout, spec.federation),
    }
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


RowsOfRound = Callable[[int], Sequence[LedgerRow]]
"""The ledger's rows of one round, repeats included."""


def _radii(run: Run, rows_of_round: RowsOfRound, round_: int) -> Floats | None:
    """Radii of the releases of a round, [releases, parts]; None where no radius is secret."""
    inputs = run.ledger.inputs
    if inputs.radius_floor is None:
        return None
    # If a round was interrupted and repeated, only the repeat has radii.
    found = [
        row.radii.reshape(len(row.subjects), len(inputs.noised_sizes))[
            row.outcomes == Outcome.RELEASED
        ]
        for row in rows_of_round(round_)
        if not row.interrupted and not charges_report(row.observer)
    ]
    return np.concatenate(found) if found else None


_OF_RUN = ("experiment_id", "name", "spec", "disclosures", "everybody_withheld")
_OF_LEDGER = ("inputs", "ledger_hash", "entries", "clusters", "compositions")
_OF_SPENDING = ("releases", "refusals", "withheld", "refused")


def report_material(
    run: Run,
    result: FinalResult,
    rows_of_round: RowsOfRound,
    *,
    device: str,
    backend: Mapping[str, str],
    key_id: str | None = None,
    disclosure_policy: DisclosurePolicy | None = None,
    sweep: SweepSection | None = None,
) -> ReportMaterial:
    """The facts of a finished run, for `assemble`.

    `backend`: what `training.backend` says of the device. `key_id`: the key that the report is to
    be signed with, if it is. `disclosure_policy`: the one under which a service admitted it.
    `sweep`: the one that it is a cell of.
    Raises ValueError for a run that was cancelled or has not ended.
    """
    ledger, federation = run.ledger, run.federation
    figures = {field.name: getattr(result, field.name) for field in fields(FinalFigures)}
    figures["stopped_by"] = reported_end(result.stopped_by)
    material = ReportMaterial(
        **{name: getattr(run, name) for name in _OF_RUN},
        **{name: getattr(ledger, name) for name in _OF_LEDGER},
        **{name: getattr(ledger.spending, name) for name in _OF_SPENDING},
        status="failed" if has_diverged(result.stopped_by) else "succeeded",
        federation=FederationFacts(
            fingerprint=federation.fingerprint,
            clients=federation.clients,
            training_clients=run.training_clients,
            rows=federation.rows + federation.rows_removed,
            not_counted=_not_counted(run),
            dropped=federation.rows_dropped,
            notes=federation.notes,
            positive_class=federation.classes[1] if len(federation.classes) == 2 else None,
            attributes=run.groups,
        ),
        result=FinalFigures(**figures),
        chain_head=ledger.head.hex(),
        chosen_by_losses=run.cell.chooses_by_losses,
        key_id=key_id,
        disclosure_policy=disclosure_policy,
        sweep=sweep,
        published=publish_counts(run, result),
        report_charges=int(ledger.report_charged),
        provenance=provenance(device=device, backend=backend, started_at=run.started_at),
        plan=ledger.ledger_context.plan,
        hypotheses=result.hypotheses,
        radii=_radii(run, rows_of_round, result.best_round),
    )
    model = trained_model(run, result, material)
    return replace(material, model=model, clients=_clients(run, result, material))


def _not_counted(run: Run) -> int:
    federation = run.federation
    if federation.left_out is None:
        return 0
    left_out = federation.left_out.copy()
    left_out[training_records(run.spec, federation).place] = False
    return federation.rows_removed + int(np.count_nonzero(left_out))


def _clients(run: Run, result: FinalResult, material: ReportMaterial) -> dict[str, Any] | None:
    # Only now: it brings pyarrow along, which would double the time that the API starts in.
    from fedaudit.runs.held_out_groups import decide_clients

    if result.by_client is None:
        return None
    trains = np.ones(run.federation.clients, dtype=np.bool_)
    if not run.spec.federation.holds_out_rows:
        trains[:] = False
        trains[split_of(run.spec, run.federation)[0]] = True
    decide = partial(decide_clients, run.cell, result.by_client, run.disclosures)
    names = run.federation.client_names
    return client_columns(material, result.by_client, decide, trains=trains, names=names)


def checked_report(
    material: ReportMaterial, result: FinalResult, *, progressed: Progressed = unfollowed
) -> dict[str, Any]:
    """The report document of a run that came to its end, not yet signed.

    `progressed` is called between its parts. Raises FiguresDisagreeError where the fairness figures
    do not follow from the rows that were scored.
    """
    material = replace(material, progressed=progressed)
    # Only now: it imports pandas and scikit-learn, which nothing else in this room needs.
    from fedaudit.reports.sections.cross_check import cross_checked

    match material.published:
        case ExactCounts():
            report = assemble(material)
            return cross_checked(report, result.predicted, counts=result.fairness)
        case Rounder() | NoisedCounts():
            sections = counted_sections(material)
            exact = {"fairness": [one.model_dump(mode="json") for one in sections]}
            try:
                cross_checked(exact, result.predicted, counts=result.fairness)
            except FiguresDisagreeError:
                # Without the figures: the reason why a run failed is published.
                raise FiguresDisagreeError(
                    "a fairness figure differs from what Fairlearn computes from the rows; which "
                    "one is not stated, since figures of the held-out people are protected"
                ) from None
            return assemble(material)
        case _:
            assert_never(material.published)
