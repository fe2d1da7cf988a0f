"""Every command of README and docs, page by page as printed, against one running service.

`ID` in a command is the newest of what the command is about. A line that needs what a test cannot
have is listed with its reason; every other line has to end with 0, or as listed. What several pages
print is typed once.
"""

import itertools
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from fedaudit_client.client import Client
from tests.cli.service import Service, clean_environment
from tests.house import ROOT
from tests.preloaded import programs
from tests.processes import completed
from tests.test_docs import DOCS, README
from tests.waiting import wait_until

PAGES = [README, *sorted(DOCS.glob("*.md"))]
NOT_RUN = {
    r"^(make|pip|python -m pip|ls dist)\b": "installs; the packaging tests and the CI do",
    r"^\. \.venv": "the environment of the tests is active",
    r"^fedaudit up\b": "runs already",
    r"^(kubectl|helm|docker|pg_dump|pg_restore|openssl)\b": "tests/deploy and tests/packaging do",
    r"^(source|target|python -c 'import sqlite3)|^\w+\.backup\(": "tests/packaging does",
    r"^(openapi-(python-client|generator-cli)|npx)\b": "tests of generated clients do",
    r"^(export|fedaudit publish|model_signing)\b": "make test-integrations does",
    r"^cosign\b": "no package registry has it",
    r"^cp ~": "tests/cli does, with another home",
    r"^fedaudit signing-keys compromised": "no key of this service was stolen",
    r"^fedaudit signing-keys rotate": "tests/cli does, and other pages verify with the first key",
    r"^fedaudit sweep examples/sweep.yaml$": "minutes",
    r"^fedaudit audit-log verify .*--kept?": "tests/cli does, after the log was signed",
}
ENDS_WITH = {
    r"^fedaudit gate": {0, 1, 3},
    # Without a key that the reader trusts.
    r"^fedaudit verify ID --out": {3},
}
KINDS = {
    r"^fedaudit (federations|budget|propose)\b": "federations",
    r"^fedaudit api \w+ ledgers\b": "ledgers",
    r"^fedaudit api \w+ federations\b": "federations",
    r"^fedaudit (api \w+ )?sweeps\b": "sweeps",
    r"^fedaudit api \w+ webhooks\b": "webhooks",
    r"--out audit.zip": "audits",
    r"^fedaudit": "experiments",
}
ROUNDS = """rounds:
  - round: 1
    event: {kind: poisson-gaussian, rate: 0.05, noise_multiplier: 1.0}
    participants: []
"""
UNDER_WAY = {"queued", "running", "cancelling", "profiling"}
DISCLOSURE = "minimum_group_size: 10\n"
ATTACKS = [{"kind": "membership", "method": "threshold"}]


def commands(page: Path) -> Iterator[str]:
    """The command lines of the page's shell blocks, without comments."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in re.sub(r"\\?\n\s+", " ", block).splitlines():
            if not line.startswith("#"):
                yield re.sub(r"\s+#\s.*", "", line)


@pytest.fixture(scope="module")
def service(running_service: Service) -> Service:
    """In the project for which `fedaudit keys create` makes keys."""
    return running_service


@pytest.fixture(scope="module")
def folder(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands are typed: a checkout's examples, and files that pages call their own."""
    made = tmp_path_factory.mktemp("typed")
    (made / "examples").symlink_to(ROOT / "examples")
    shutil.copy(ROOT / "examples/people.csv", made / "data.csv")
    [terms] = re.findall(r"```yaml\n(name: .*?)```", (DOCS / "ledgers.md").read_text(), re.DOTALL)
    (made / "terms.yaml").write_text(terms)
    (made / "rounds.yaml").write_text(ROUNDS)
    hook = {"url": "https://hooks.example.org/fedaudit", "events": ["gate.failed"]}
    (made / "webhook.yaml").write_text(yaml.safe_dump(hook))
    (made / "attacks.yaml").write_text(yaml.safe_dump(ATTACKS))
    spec = yaml.safe_load((ROOT / "examples/federated-averaging.yaml").read_text())
    spec["attacks"] = ATTACKS
    sweep = {"name": "small", "base": spec, "grid": {"seed": [1, 2]}}
    (made / "FILE").write_text(yaml.safe_dump(sweep))
    (made / "spec.yaml").write_text(yaml.safe_dump(spec))
    shutil.copy(service.data_dir / "signing-key.pem.pub", made)
    return made


@pytest.fixture(scope="module", autouse=True)
def something_of_each_kind(service: Service) -> None:
    """A page may speak of an experiment that another page submits."""
    with Client(service.url, service.api_key) as client:
        spec = yaml.safe_load((ROOT / "examples/synthetic-groups-k2.yaml").read_text())
        for seed in (1, 2, 3):
            spec["seed"], spec["training"]["rounds"] = seed, 12
            client.wait(client.submit(spec)["id"])


@pytest.fixture(scope="module")
def typed() -> set[str]:
    """The lines of the pages before."""
    return set()


@pytest.mark.parametrize(
    "page", [one for one in PAGES if [*commands(one)]], ids=lambda page: page.stem
)
def test_its_commands_do_what_it_says(
    page: Path, service: Service, folder: Path, typed: set[str]
) -> None:
    variables = dict(service.environment)
    policies = (ROOT / "examples/policies/release.yaml").read_text("utf-8")
    (folder / "policy.yaml").write_text(DISCLOSURE if page.stem == "federations" else policies)
    for printed in commands(page):
        if printed in typed or any(re.search(pattern, printed) for pattern in NOT_RUN):
            continue
        expected = next((ends for p, ends in ENDS_WITH.items() if re.search(p, printed)), {0})
        line = with_id(printed, service)
        ended = run(line, service, folder, variables)
        assert ended.returncode in expected, (line, ended.stdout[-2000:], ended.stderr[-2000:])
        if "reports:sign" in line:
            [variables["FEDAUDIT_API_KEY"]] = re.findall(r"\S{40,}", ended.stdout)
        else:
            typed.add(printed)


def test_what_is_not_run_is_still_on_a_page() -> None:
    lines = [line for page in PAGES for line in commands(page)]
    for pattern in NOT_RUN:
        assert any(re.search(pattern, line) for line in lines), pattern


def with_id(line: str, service: Service) -> str:
    """The line with the newest ids that it can be about, once these have come to their end."""
    if not re.search(r"\bID\b", line):
        return line
    kind = next(kind for pattern, kind in KINDS.items() if re.search(pattern, line))
    name = "release" if line.startswith("fedaudit model") else "synthetic-groups-k2"

    def ended() -> list[dict[str, str]]:
        items = httpx.get(f"{service.url}/v1/{kind}", headers=service.bearer).json()["items"]
        items = [one for one in items if kind != "experiments" or one["name"] == name]
        return [] if any(one.get("status") in UNDER_WAY for one in items) else items

    for one in wait_until(ended, f"the end of {kind}", pause=0.5):
        line = re.sub(r"\bID\b", one["id"], line, count=1)
    return line


def run(
    line: str, service: Service, folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Type a line: by bash where it needs one, else without the seconds of the imports."""
    environment = clean_environment(**variables, FEDAUDIT_DATA_DIR=str(service.data_dir))
    options, given = {"env": environment, "cwd": folder}, ""
    words = shlex.split(line, comments=True)
    if words[0] != "fedaudit":
        typed = line.replace("curl ", "curl --fail-with-body -sS ")
        return completed(["bash", "-euo", "pipefail", "-c", typed], **options)
    for _, part in itertools.groupby(words, lambda word: word != "|"):
        first, *arguments = part
        if first == "fedaudit":
            done = programs().run(*arguments, stdin=given, timeout=120, **options)
            given = done.stdout
            if done.returncode:
                break
    return done
