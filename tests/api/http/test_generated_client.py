"""A client that openapi-python-client makes sends every example, and reads what is answered."""

import json
import sys
from importlib import import_module

from tests.api.service import finish
from tests.client.generated import PACKAGE, bodies, generate, lost


def test_it_sends_every_example_and_reads_the_answers(api, tmp_path, monkeypatch):
    document = api.get("/openapi.json", key=None).json()
    generate(document, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    models = import_module(f"{PACKAGE}.models")
    found = [*bodies(document)]
    assert len(found) > 50
    for name, schema, body in found:
        assert lost(body, getattr(models, schema).from_dict(body).to_dict()) == "", name

    [spec] = [body for name, _, body in found if name == "submit_experiment"]
    submitted = api.post("/v1/experiments", json=spec).json()
    id_ = submitted["id"]
    read = models.SubmittedBody.from_dict(submitted)
    assert isinstance(read.spec, models.ExperimentSpec)
    # What was answered is sent again as it is.
    assert api.post("/v1/experiments", json=read.spec.to_dict()).status_code == 202
    finish(api, id_)
    for path, schema in {
        f"/experiments/{id_}": "ExperimentBody",
        f"/experiments/{id_}/report": "Report",
        f"/experiments/{id_}/privacy-ledger": "LedgerPage",
        f"/experiments/{id_}/fairness": "FairnessPage",
        "/federations": "FederationPage",
        "/reports": "ReportPage",
    }.items():
        # As Python writes times.
        answer = json.loads(api.get(f"/v1{path}").text.replace('Z"', '+00:00"'))
        assert lost(answer, getattr(models, schema).from_dict(answer).to_dict()) == "", path
    for module in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[module]
