"""What the command line says to a spec that it cannot use."""

import json

import pytest

RUN = ("run", "-")


@pytest.mark.parametrize("name", ["run", "submit"])
def test_every_fault_is_named_with_its_field(command, small_spec, name):
    small_spec["training"]["rounds"] = 0
    small_spec["privacy"]["noise"] = "loud"
    small_spec["colour"] = "red"
    service = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "fa_none"}
    done = command(name, "-", stdin=json.dumps(small_spec), env=service)
    assert done.returncode == 2
    assert done.stdout == ""
    for pointer in ("/training/rounds: ", "/privacy/noise: ", "/colour: unknown field"):
        assert pointer in done.stderr
    assert "Traceback" not in done.stderr


def test_a_spec_that_does_not_fit_its_data_is_refused_before_training(command, small_spec):
    small_spec["training"]["cohort"]["clients"] = 51
    done = command(*RUN, stdin=json.dumps(small_spec))
    assert done.returncode == 2
    assert "/training/cohort/clients: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is neither YAML nor JSON"),
        ("", "(the whole): "),
        ("[1, 2]", "(the whole): "),
        ("name: [", "is neither YAML nor JSON"),
        ("a: !!python/object/apply:os.system [true]", "is neither YAML nor JSON"),
        ("x" * (1 << 20) + "x", "larger than 1 MiB"),
    ],
)
def test_what_is_no_spec_is_refused_in_plain_language(command, text, said):
    done = command(*RUN, stdin=text)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_read_is_named(command, tmp_path):
    missing = command("run", tmp_path / "none.yaml")
    assert missing.returncode == 2
    assert f"cannot use {tmp_path}/none.yaml: No such file" in missing.stderr
    folder = command("run", tmp_path)
    assert (folder.returncode, "Is a directory" in folder.stderr) == (2, True)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    binary = command("run", tmp_path / "binary")
    assert (binary.returncode, "is not UTF-8 text" in binary.stderr) == (2, True)


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
        ("submit", "-", "--idempotency-key", ""),
        ("submit", "-", "--idempotency-key", "é"),
    ],
)
def test_a_wrong_call_exits_with_two(command, arguments):
    done = command(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
