"""The chart, as Helm itself renders it: valid for Kubernetes, and fit for what it starts."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helm_python import Chart, HelmError, lint
from sqlalchemy import text

from fedaudit.federations.federation import run_bytes
from infrastructure.settings import Settings
from tests.api.service import running_api, settings_for
from tests.house import ROOT

CHART = ROOT / "deploy/helm/fedaudit"
KUBERNETES = "1.35"
S3: dict[str, Any] = {"storage": {"url": "s3://audits/fedaudit"}}
EVERYTHING: dict[str, Any] = {
    "storage": {"existingClaim": "shared"},
    "sources": {"existingClaim": "sources"},
    "metricsToken": {"secret": "scraping"},
    "image": {"pullSecrets": ["registry"]},
    "api": {"trustedProxies": "10.0.0.0/8", "nodeSelector": {"a": "b"}},
    "workers": {"gpu": {"enabled": True, "nodeSelector": {"gpu": "yes"}}},
    "keda": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
    },
}
OF_KEDA = ("ScaledObject", "TriggerAuthentication")


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Every manifest. Raises HelmError where Helm refuses the values."""
    chart = Chart.load(CHART)
    chart.validate_schema(values)
    made = chart.render(values, name="audit", namespace="audits", is_install=True)
    texts = (made[path] for path in sorted(made) if path.endswith(".yaml"))
    return [one for manifests in texts for one in yaml.safe_load_all(manifests) if one]


def pods(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the pod of each manifest that has one."""
    for one in manifests:
        if "template" in one.get("spec", {}):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def by_name(manifests: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    [container] = pod["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


@pytest.mark.parametrize("values", [S3, EVERYTHING], ids=["least", "everything"])
def test_helm_finds_no_fault_and_kubernetes_takes_each(values: dict[str, Any]) -> None:
    found = lint(CHART, values, strict=True)
    assert [one for one in found["messages"] if one["severity"] > 1] == []
    manifests = rendered(values)
    names = [(one["kind"], one["metadata"]["name"]) for one in manifests]
    assert len(set(names)) == len(names)
    for one in manifests:
        if one["kind"] not in OF_KEDA:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_pods_have_no_rights_and_secrets_stay_secrets() -> None:
    for name, pod in pods(rendered(EVERYTHING)):
        [container] = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        variables = environment(pod)
        for url in ("FEDAUDIT_DATABASE_URL", "FEDAUDIT_BROKER_URL"):
            assert set(variables[url]) == {"secretKeyRef"}
        signs = "FEDAUDIT_SIGNING_KEY_FILE" in variables
        assert signs == ("worker" in name or "sweeper" in name)
        mounted = {one["name"] for one in container["volumeMounts"]}
        assert mounted == {one["name"] for one in pod["volumes"]}
        known = {f"FEDAUDIT_{field.upper()}" for field in Settings.model_fields}
        known.add("FEDAUDIT_WORKER_THREADS")
        assert {one for one in variables if one.startswith("FEDAUDIT_")} <= known


def test_each_process_is_what_the_image_starts() -> None:
    manifests = rendered(EVERYTHING)
    commands = {name: pod["containers"][0]["command"] for name, pod in pods(manifests)}
    python = ["python", "-P", "-m"]
    assert commands == {
        "audit-migrate": ["fedaudit", "migrate"],
        "audit-api": [*python, "api", "--host", "0.0.0.0", "--port", "8000"],
        "audit-sweeper": [*python, "workers.sweeper"],
        "audit-worker-cpu": [*python, "workers", "--device", "cpu"],
        "audit-worker-gpu": [*python, "workers", "--device", "cuda:0"],
    }
    found = dict(pods(manifests))
    assert found["audit-worker-gpu"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    migrate = by_name(manifests, "Job")["audit-migrate"]
    assert migrate["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert by_name(manifests, "PodDisruptionBudget").keys() == commands.keys() - {"audit-migrate"}
    # Only the API is reached.
    policies = by_name(manifests, "NetworkPolicy")
    assert "ingress" not in policies["audit-nobody"]["spec"]
    [rule] = policies["audit-api"]["spec"]["ingress"]
    assert rule["from"] == EVERYTHING["networkPolicy"]["apiFrom"]


def test_an_api_has_memory_for_the_largest_tables_that_it_plans() -> None:
    """At once, by docs/evidence/performance.md; and a worker for what a run may take."""
    found = dict(pods(rendered(S3)))
    allowed, step = Settings.model_fields["max_data_memory_bytes"].default, 10**5
    largest = step
    while run_bytes(rows=largest + step, features=100, attributes=2) <= allowed:
        largest += step
    threads = int(environment(found["audit-api"])["FEDAUDIT_LOAD_THREADS"])
    for name, bytes_ in (
        ("audit-api", 2**29 + threads * largest * 120),
        ("audit-worker-cpu", 2**30 + allowed),
    ):
        memory = found[name]["containers"][0]["resources"]["limits"]["memory"]
        assert int(memory.removesuffix("Gi")) * 2**30 >= bytes_


def test_keda_counts_the_units_that_need_a_worker(postgres_url: str, tmp_path: Path) -> None:
    manifests = rendered(EVERYTHING)
    scaled = by_name(manifests, "ScaledObject")
    deployments = by_name(manifests, "Deployment")
    assert scaled.keys() == {"audit-worker-cpu", "audit-worker-gpu"}
    queries = {}
    for name, one in scaled.items():
        # Two would fight over the number.
        assert "replicas" not in deployments[name]["spec"]
        [trigger] = one["spec"]["triggers"]
        assert trigger["type"] == "postgresql"
        assert trigger["authenticationRef"]["name"] in by_name(manifests, "TriggerAuthentication")
        queries[name] = trigger["metadata"]["query"]
    with running_api(settings_for(postgres_url, tmp_path)) as api:

        def counts() -> list[int]:
            with api.database.read() as session:
                return [int(session.scalar(text(query)) or 0) for query in queries.values()]

        assert counts() == [0, 0]
        api.submit()
        assert counts() == [1, 1]
        for change, expected in (
            ("device = 'cuda'", [0, 1]),
            ("state = 'leased'", [0, 1]),
            ("state = 'done'", [0, 0]),
        ):
            with api.database.write() as session:
                session.execute(text(f"UPDATE units SET {change}"))
            assert counts() == expected


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "storage"),
        ({**S3, "api": {"replica": 3}}, "replica"),
        ({**S3, "workers": {"cpu": {"device": "cuda:1"}}}, "device"),
        ({**S3, "settings": {"FEDAUDIT_DATABASE_URL": "sqlite:///x"}}, "FEDAUDIT_DATABASE_URL"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(HelmError, match=named):
        rendered(copy.deepcopy(values))
