"""Experiments of earlier versions: specs have gained fields since they were stored."""

import hashlib

import rfc8785
from sqlalchemy import update

from models.tables.experiments import Experiment
from tests.api.service import Api, finish


def test_a_spec_is_checked_as_it_was_stored(api: Api) -> None:
    experiment = api.submit()
    finish(api, experiment["id"])
    older = {name: part for name, part in experiment["spec"].items() if name != "fairness"}
    fairness = experiment["spec"]["fairness"]
    older["fairness"] = {name: part for name, part in fairness.items() if name != "edges"}
    for spec_hash, outcome in (
        (hashlib.sha256(rfc8785.dumps(older)).hexdigest(), "pass"),
        (experiment["spec_hash"], "fail"),
    ):
        with api.database.write() as session:
            session.execute(update(Experiment).values(spec=older, spec_hash=spec_hash))
        answer = api.get(f"/v1/experiments/{experiment['id']}/report/verification").json()
        outcomes = {check["name"]: check["outcome"] for check in answer["checks"]}
        assert outcomes["experiment.spec_hash"] == outcome
