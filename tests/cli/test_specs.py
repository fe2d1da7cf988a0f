"""What the command line says to a spec, or a call, that it cannot use."""

import json

import pytest

from tests.cli.conftest import assert_refused


@pytest.mark.parametrize("name", ["run", "submit"])
def test_every_fault_is_named_with_its_field(command, small_spec, name):
    small_spec["training"]["rounds"] = 0
    small_spec["privacy"]["noise"] = "loud"
    small_spec["colour"] = "red"
    service = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "fa_none"}
    done = command(name, "-", stdin=json.dumps(small_spec), env=service)
    assert_refused(done, "/training/rounds: ", "/privacy/noise: ", "/colour: unknown field")
    assert done.stdout == ""


def test_a_spec_that_does_not_fit_its_data_is_refused_before_training(command, small_spec):
    done = command("run", "-", "--device", "cuda:99", stdin=json.dumps(small_spec))
    assert_refused(done, "device")
    small_spec["training"]["cohort"]["clients"] = 51
    done = command("run", "-", stdin=json.dumps(small_spec))
    assert_refused(done, "/training/cohort/clients: ")
    small_spec["federation"] = {"id": "00000000-0000-0000-0000-000000000000"}
    done = command("run", "-", stdin=json.dumps(small_spec))
    assert_refused(done, "/federation/id: leaves the columns to a registration")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is neither YAML nor JSON"),
        ("", "(the whole): "),
        ("[1, 2]", "(the whole): "),
        ("a: !!python/object/apply:os.system [true]", "is neither YAML nor JSON"),
        ("x" * (1 << 20) + "x", "larger than 1 MiB"),
    ],
)
def test_what_is_no_spec_is_refused_in_plain_language(command, text, said):
    assert_refused(command("run", "-", stdin=text), said)


def test_a_file_that_cannot_be_read_is_named(command, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, why in (
        ("none.yaml", f"cannot use {tmp_path}/none.yaml: No such file"),
        ("", "Is a directory"),
        ("binary", "is not UTF-8 text"),
    ):
        assert_refused(command("run", tmp_path / path), why)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("run",),
        ("up", "--port", "70000"),
        ("export", "some-id", "--what", "ledger", "--format", "xlsx"),
        ("worker", "--device", "tpu"),
        ("keys", "create", "--project", "p", "--scopes", "experiments:read,reports:reed"),
        ("keys", "create", "--project", "", "--scopes", "admin"),
        ("submit", "-", "--idempotency-key", "é"),
    ],
)
def test_a_wrong_call_exits_with_two(command, arguments):
    assert_refused(command(*arguments))
