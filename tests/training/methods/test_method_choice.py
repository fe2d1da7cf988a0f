"""Every method that a spec may name is found, an object in a file of its own."""

from pathlib import Path

from fedaudit.spec.parse import parse_spec
from fedaudit.training import methods
from fedaudit.training.methods import training_method
from tests.training.methods.names import method_names
from tests.training.specs import groups_spec

HELPERS = {"__init__", "training_method", "method_choice"}
SPLIT = {"source": "synthetic-groups", "scoring": {"method": "split"}}


def test_a_method_is_one_file() -> None:
    files = {path.stem for path in Path(methods.__file__ or "").parent.glob("*.py")} - HELPERS
    found = {}
    for name in method_names():
        spec = parse_spec(
            groups_spec(
                federation=SPLIT,
                privacy={"mechanism": "none"},
                training__hypotheses=1,
                training__method=name,
            )
        )
        one = training_method(spec.training)
        assert one.name == name
        assert (one.personal_steps is not None) == spec.training.method.personalises
        found[type(one).__module__.rpartition(".")[2]] = name
    assert set(found) == files
    assert len(found) == len(method_names())
