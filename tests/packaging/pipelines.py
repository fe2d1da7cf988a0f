"""The shell steps of the pipelines in examples/ci, run as GitHub and GitLab run them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parents[2] / "examples" / "ci"
SECONDS = 180


def github_steps() -> list[dict[str, Any]]:
    """The steps of the workflow's only job that are shell."""
    [job] = _read("github-actions.yml")["jobs"].values()
    return [step for step in job["steps"] if "run" in step]


def run_github(environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run the steps in a checkout; gives the job's exit code and all that was said.

    After a failure only the steps with `!cancelled()` run. What a step appends to GITHUB_ENV, later
    ones have.
    """
    kept, code, said = folder / "github-env", 0, ""
    kept.touch()
    for step in github_steps():
        assert step.get("if") in (None, "${{ !cancelled() }}")
        if code and "if" not in step:
            continue
        added = dict(line.split("=", 1) for line in kept.read_text().splitlines())
        files = {"GITHUB_ENV": str(kept), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
        done = _bash("-e", step["run"], {**environment, **files, **added}, folder)
        said += done.stdout + done.stderr
        code = code or done.returncode
    return code, said


def run_gitlab(environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run the job's script in a checkout, all lines in one shell."""
    job = _read("gitlab-ci.yml")["audit"]
    lines = [*job["before_script"], *job["script"]]
    done = _bash("-eo", "\n".join(lines), {**job["variables"], **environment}, folder, "pipefail")
    return done.returncode, done.stdout + done.stderr


def _bash(
    option: str, script: str, environment: Mapping[str, str], folder: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "--noprofile", "--norc", option, *more, "-c", script],
        env=dict(environment),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return found
