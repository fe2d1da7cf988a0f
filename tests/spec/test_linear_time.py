"""What a caller sends is refused in time that grows with its length, not with its square.

Each case runs in a process of its own with a limit on processor time, many times what is needed and
a small part of what comparing every name with every other would take.
"""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_CPU_SECONDS = 20
_LIMIT = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({_CPU_SECONDS},) * 2)\n"
# The name that is given twice stands last, where a search from the front finds it last.
_TEXT = "text = '{' + ','.join(f'\"{n}\": 0' for n in range(150_000)) + ',\"149999\": 1}'\n"
_CASES = {
    "request body": (
        "from api.http.bodies import decode_json\n"
        "from api.http.problems import ProblemError as Refused\n"
        "call = lambda: decode_json(text.encode())\n"
    ),
    "pasted spec": (
        "from fedaudit.spec.parse import decode_text\n"
        "from fedaudit.spec.errors import InvalidInputError as Refused\n"
        "call = lambda: decode_text(text)\n"
    ),
    "unknown fields": (
        "from fedaudit.spec.parse import parse_spec\n"
        "from fedaudit.spec.errors import InvalidInputError as Refused\n"
        "call = lambda: parse_spec({f'field {n}': 0 for n in range(60_000)})\n"
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_many_names_are_refused_in_linear_time(name: str) -> None:
    attempt = (
        "try:\n    call()\nexcept Refused as refused:\n"
        "    print('refused', len(str(refused)) > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", _LIMIT + _TEXT + _CASES[name] + attempt],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
    )
    assert done.stdout.strip() == "refused True", (done.returncode, done.stderr[-500:])
