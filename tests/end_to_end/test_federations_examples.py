"""What docs/data.md and examples/registrations show can be used as it is shown."""

import re
from pathlib import Path

import pytest
import yaml

from fedaudit.federations.load import RegisteredData
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.parse import decode_text
from fedaudit.spec.registration import parse_registration, parse_uploaded

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
PAGE = (REPOSITORY / "docs" / "data.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SENT = re.findall(r"(?:registration=|-d ')(\{.*\})'", PAGE)
REGISTRATIONS = sorted((EXAMPLES / "registrations").glob("*.yaml"))


@pytest.mark.parametrize("block", BLOCKS)
def test_registrations_of_the_page(block: str) -> None:
    value = decode_text(block)
    # One that shows how groups are compared is a part of the first.
    whole = decode_text(BLOCKS[0]) | value if value.keys() == {"fairness"} else value
    assert parse_uploaded(whole, file_name="any.csv").name


@pytest.mark.parametrize("path", REGISTRATIONS, ids=lambda path: path.stem)
def test_registrations_among_the_examples(path: Path) -> None:
    assert parse_uploaded(decode_text(path.read_text("utf-8")), file_name="any.csv").name


def test_what_the_page_sends_is_profiled() -> None:
    uploaded, below_sources = (yaml.safe_load(text) for text in SENT)
    for registration in (
        parse_uploaded(uploaded, file_name="people.csv"),
        parse_registration(below_sources),
    ):
        profile = RegisteredData(registration, Files(EXAMPLES)).profile()
        assert (profile["rows"], profile["clients"]) == (300, 20)
