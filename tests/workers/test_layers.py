"""Runs in which each layer has noise of its own: ledger, report, verification, crashes."""

from typing import Any

import numpy as np
import pytest

from api.services.report_evidence import evidence_of
from fedaudit.reports.report import Report
from fedaudit.reports.verification.verification import verify
from tests.ledger.single_entry import columns_of
from tests.workers.admission import (
    document_of,
    experiment_of,
    ledger_of,
    ran,
    rounds_of,
    spec_with,
    submit,
)
from tests.workers.test_signing import judged
from workers.run_unit import run_unit
from workers.sweeper import Sweeper

LAYERS: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": [3]},
    "training__local": {"step_size": 0.01},
    "privacy__per_layer": True,
}
SIZES, NU = (9, 4), 3.0
"""Two features to three units, and these to one output, with a bias each."""


def failed_checks(verification: Any) -> set[str]:
    return {one.name for one in verification.checks if one.outcome == "fail"}


@pytest.mark.parametrize("radius", ["adaptive", 0.5])
def test_ledger_report_and_verification_agree(database, context, radius):
    submitted = ran(database, context, spec_with(**LAYERS, privacy__radius=radius))
    rows = ledger_of(database, submitted)
    assert len(rows) == 12
    for row in rows:
        assert [part["n"] for part in row.inputs["components"]] == list(SIZES)
        assert row.radii.shape == (14,)
        assert (np.unique(row.radii).size == 14) == (radius == "adaptive")

    document = document_of(database, submitted)
    privacy = Report.model_validate(document).privacy
    assert privacy.leakage_by_component is not None
    assert [
        (part.component, part.parameters, part.leakage_per_release)
        for part in privacy.leakage_by_component
    ] == [(f"layer-{place}", n, n / NU) for place, n in enumerate(SIZES, start=1)]
    assert privacy.leakage_per_release == sum(SIZES) / NU
    assert "Each of the 2 layers" in document["guarantee"]["statement"]
    assert judged(database, submitted, context).verdict == "valid"


OTHER_LAYERS: list[Any] = [
    [("layer-1", 13)],
    [("layer-1", 10), ("layer-2", 3)],
    [("layer-1", 6), ("layer-2", 7)],
    [("layer-1", 9.5), ("layer-2", 3.5)],
    [("layer-1", 9), ("layer-2", 4), ("layer-3", 4)],
    [],
    None,
    "layer-1",
]


def test_a_report_with_other_layers_is_found(database, context):
    submitted = ran(database, context, spec_with(**LAYERS, training__rounds=2))
    document = document_of(database, submitted)
    for layers in OTHER_LAYERS:
        stated = layers
        if isinstance(layers, list):
            stated = [
                {"component": name, "parameters": n, "leakage_per_release": n / NU}
                for name, n in layers
            ]
        document["privacy"]["leakage_by_component"] = stated
        evidence = evidence_of(database, experiment_of(database, submitted), document)
        found = failed_checks(verify(evidence, trusted=[context.signing_key.public]))
        assert {"ledger.inputs", "report.signature"} <= found, layers


@pytest.mark.parametrize("ending", ["taken up", "failed"])
def test_lost_rounds_are_charged_in_every_layer(database, context, crash_in_block, ending):
    """Whether another worker takes the run up, or nobody does and the sweeper enters them."""
    crash_in_block(2)
    attempts = 1 if ending == "failed" else 3
    spec = spec_with(**LAYERS, privacy__noise="release")
    submitted = ran(database, context, spec, max_attempts=attempts)
    if ending == "failed":
        assert Sweeper(context.settings, database, context.queue).tick()
    else:
        run_unit(context, submitted.unit_id)
    rows = ledger_of(database, submitted)
    assert len(rows) == (6 if ending == "failed" else 15)
    for row in rows:
        entry = columns_of(row)
        assert entry.radii.shape == (7, 2)
        assert np.isnan(entry.radii).all() == row.interrupted
    assert sum(row.interrupted for row in rows) == 3
    assert not failed_checks(judged(database, submitted, context))


# -- clusters and hypotheses of stored runs: over rounds, after interruptions, and in the report --


def test_lost_rounds_count_in_the_cluster_that_a_client_was_in(database, context, crash_in_block):
    submitted = submit(database, spec_with(privacy__noise="release"))
    crash_in_block(3, rounds=2)
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).rounds_done == 4
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"
    report, rounds = document_of(database, submitted), rounds_of(database, submitted)
    assert rounds[-1].leakage_by_cluster == report["privacy"]["leakage_by_cluster"]
    for row in rounds:
        assert row.leakage_max == max(one["leakage_max"] for one in row.leakage_by_cluster or ())
    # The best round's radii are found even where a lost release of it stands before them.
    assert report["privacy"]["between_hypotheses"]["pairs"][0]["epsilon_max"] > 0
