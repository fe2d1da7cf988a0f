"""What the API loads: nothing heavy to start with, and to serve every call no torch."""

import sys
from pathlib import Path

from tests.house import ROOT
from tests.processes import completed

HEAVY = (
    *("torch", "pandas", "pyarrow", "celery", "workers", "matplotlib", "sklearn", "fairlearn"),
    "scipy.special",
)
PROGRAM = f"""
import pathlib, sys, api.__main__
from api.app import create_app
from infrastructure.settings import Settings
create_app(Settings()).openapi()
print([name for name in sys.modules if name in {HEAVY!r}])
sys.modules.update(dict.fromkeys(["torch", "fairlearn", "pandas", "sklearn"]))
import workers.sweeper
from tests.api.service import *
with running_api(settings_for(sys.argv[1], pathlib.Path(sys.argv[2]))) as api:
    id_ = api.submit()["id"]
    finish(api, id_)
    for rest in ("", "/rounds", "/privacy-ledger", "/fairness", "/report.html",
                 "/report/verification", "/events"):
        assert api.get(f"/v1/experiments/{{id_}}{{rest}}").status_code == 200, rest
print("served")
"""


def test_starting_serving_and_sweeping_load_nothing_heavy(tmp_path: Path, sqlite_url: str) -> None:
    done = completed([sys.executable, "-c", PROGRAM, sqlite_url, str(tmp_path)], cwd=ROOT)
    loaded, *_, served = done.stdout.splitlines() or ["", done.stderr]
    assert (loaded, served) == ("[]", "served"), done.stderr
