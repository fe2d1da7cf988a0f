"""Files of parameters over HTTP: uploaded, looked at, started from and deleted."""

import hashlib
from typing import Any

import numpy as np
import safetensors.numpy

from fedaudit.networks.parameter_files import encode_hypotheses
from fedaudit.networks.shape import DenseShape
from models.values import SCOPES
from tests.api.service import SPEC, Api, body_of, running_api, settings_for, spec

SHAPE = DenseShape((2, 1), intercept=True)
BINARY = {"Content-Type": "application/octet-stream"}


def parameters(k: int, *, first: float = 0.0) -> bytes:
    """A file of k hypotheses of the model of SPEC."""
    theta = np.arange(3.0 * k, dtype=np.float32).reshape(k, 3) + np.float32(first)
    return encode_hypotheses(SHAPE, theta, metadata={})


FILE = parameters(SPEC["training"].get("hypotheses", 1))
ID = hashlib.sha256(FILE).hexdigest()


def send(api: Api, data: bytes = FILE, **options: Any) -> Any:
    return api.post("/v1/artifacts", content=data, headers=BINARY, **options)


def started() -> dict[str, Any]:
    return spec(model={"start": {"artifact": ID}})


def test_a_file_is_kept_under_the_hash_of_its_content(api: Api) -> None:
    answer = send(api)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/v1/artifacts/{ID}"
    body = answer.json()
    assert (body["id"], body["size_bytes"], body["parameters"]) == (ID, len(FILE), 3)
    assert body["tensors"][0] == {"name": "hypotheses.0.0.bias", "shape": [1]}
    again = send(api)
    assert (again.status_code, again.json()) == (200, body)
    assert api.get(f"/v1/artifacts/{ID}").json() == body


def test_an_experiment_starts_from_it_and_one_without_it_is_refused(api: Api) -> None:
    refused = api.post("/v1/experiments", json=started())
    assert [one["pointer"] for one in body_of(refused, 422)["errors"]] == ["/model/start/artifact"]
    send(api)
    stored = api.submit(started())
    assert stored["spec"]["model"]["start"] == {"artifact": ID}
    assert api.submit(spec())["spec_hash"] != stored["spec_hash"]
    other = api.key_with(*SCOPES, project="another")
    assert api.post("/v1/experiments", json=started(), key=other).status_code == 422
    assert api.request("DELETE", f"/v1/artifacts/{ID}").status_code == 204
    assert api.post("/v1/experiments", json=started()).status_code == 422


def test_what_are_no_hypotheses_is_refused(api: Api) -> None:
    zero, weight = np.zeros(1, np.float32), "hypotheses.0.0.weight"
    for tensors, message in (
        ({"w": zero}, "has a tensor called 'w'"),
        ({"hypotheses.1.0.weight": zero}, "no tensors of hypotheses.0"),
        ({weight: np.zeros(1)}, "store it as float32"),
        ({weight: np.full(1, np.inf, np.float32)}, "not finite"),
        (None, "no safetensors file"),
    ):
        data = b"\x80\x04]\x94." if tensors is None else safetensors.numpy.save(tensors)
        assert message in body_of(send(api, data), 422)["errors"][0]["message"]


def test_a_file_is_bounded_and_of_one_media_type(sqlite_url: str, tmp_path: Any) -> None:
    with running_api(settings_for(sqlite_url, tmp_path, max_artifact_bytes=1024)) as api:
        assert api.post("/v1/artifacts", content=bytes(1025), headers=BINARY).status_code == 413
        other = api.post("/v1/artifacts", content=FILE, headers={"Content-Type": "text/plain"})
        assert other.status_code == 415
    assert api.get(f"/v1/artifacts/{'../' * 3}etc").status_code == 404


def test_the_list_says_who_sent_a_file_and_what_starts_from_it(api_on_both: Api) -> None:
    """On both databases: the uses are looked up inside the stored specs."""
    api = api_on_both
    send(api, parameters(SPEC["training"]["hypotheses"], first=9.0))
    api.post("/v1/artifacts?name=warm.safetensors", content=FILE, headers=BINARY)
    # Sent again it keeps its name, its time and its author.
    send(api)
    used = api.submit(started())
    api.submit(spec())
    first, second = api.get("/v1/artifacts").json()["items"]
    assert (first["id"], first["name"], first["size_bytes"]) == (ID, "warm.safetensors", len(FILE))
    assert first["created_by"]["key_name"] == "tests"
    assert first["used_by"] == [{"id": used["id"], "name": used["name"], "status": "queued"}]
    assert (first["uses"], second["uses"], second["name"]) == (1, 0, None)
    page = api.get("/v1/artifacts?limit=1").json()
    rest = api.get("/v1/artifacts", params={"cursor": page["next_cursor"]}).json()
    assert [one["id"] for one in rest["items"]] == [second["id"]]
    api.request("DELETE", f"/v1/artifacts/{ID}")
    assert [one["id"] for one in api.get("/v1/artifacts").json()["items"]] == [second["id"]]
