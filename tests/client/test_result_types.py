"""What the client says of the service's answers, beside what the service says of them."""

import typing
from pathlib import Path

import pytest

import fedaudit_client.result_types as client
import fedaudit_client.sweep_types as sweeps
from api.app import create_app
from api.http.problem_meanings import MEANINGS
from fedaudit_client.errors import PROBLEMS
from tests.api.service import settings_for

SCHEMAS = {
    client.Progress: "Progress",
    client.Actor: "ActorBody",
    client.Experiment: "ExperimentBody",
    client.Submitted: "SubmittedBody",
    client.Projection: "ProjectionBody",
    client.Validation: "ValidationBody",
    client.Fault: "ProblemFault",
    client.Federation: "FederationBody",
    client.Erasure: "ErasureBody",
    client.Budget: "BudgetBody",
    client.GatesEvaluation: "GatesEvaluation",
    client.GateResult: "GateSection",
    client.Policy: "PolicyBody",
    client.Key: "KeyBody",
    client.NewKey: "NewKeyBody",
    client.SignOff: "SignOffBody",
    client.Artifact: "ArtifactBody",
    client.ListedArtifact: "ListedArtifact",
    client.SigningKey: "SigningKeyBody",
    client.ListedReport: "ReportBody",
    client.Audit: "AuditBody",
    client.LaterAttacks: "LaterAttacksBody",
    client.VerificationCheck: "Check",
    client.AuditVerification: "AuditVerification",
    sweeps.SweepProgress: "SweepProgress",
    sweeps.SweepCell: "SweepCellBody",
    sweeps.SweepEpsilon: "SweepEpsilon",
    sweeps.SweepCosts: "SweepCosts",
    sweeps.SweepFacts: "SweepFacts",
    sweeps.ListedSweep: "ListedSweepBody",
    sweeps.Sweep: "SweepBody",
    sweeps.SubmittedSweep: "SubmittedSweepBody",
    sweeps.SweepValidation: "SweepValidationBody",
    sweeps.FigureSpread: "FigureSpread",
    sweeps.SweepRow: "SweepRow",
    sweeps.SweepTable: "SweepTableBody",
}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("api")
    app = create_app(settings_for(f"sqlite:///{folder / 'none.db'}", Path(folder)))
    found: dict[str, dict] = app.openapi()["components"]["schemas"]
    return found


def test_every_shape_has_its_schema() -> None:
    named = (*vars(client).values(), *vars(sweeps).values())
    shapes = {one for one in named if typing.is_typeddict(one)}
    assert shapes == set(SCHEMAS)


def test_shapes_name_fields_that_there_are(schemas: dict[str, dict]) -> None:
    for shape, name in SCHEMAS.items():
        said = schemas[name]["properties"]
        for field, hint in typing.get_type_hints(shape).items():
            assert field in said, (name, field)
            nullable = {"type": "null"} in said[field].get("anyOf", ())
            # A shape may promise less than the service does, never more.
            assert not nullable or type(None) in typing.get_args(hint), (name, field)


def test_every_kind_of_problem_has_a_class() -> None:
    assert set(PROBLEMS) == set(MEANINGS)
