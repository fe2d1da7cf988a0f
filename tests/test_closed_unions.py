"""Nothing falls through: whoever adds a member to a closed union is shown every place it concerns.

In a copy of the packages every closed union gets one more member, and mypy, run once over the copy,
must name every `assert_never` there is. Mappings by the values of a literal must have them all.
"""

import importlib
import pkgutil
import typing
from collections.abc import Iterator, Mapping
from types import ModuleType

import pytest

import fedaudit_client.experiments
import models.repositories.experiments
from api.schemas.experiments import Status
from fedaudit.ledger.rows import OUTCOMES, Outcome, OutcomeName
from fedaudit.privacy.accounting.privacy_events import Event, known_event
from fedaudit.spec.sources import FileSource
from tests.sabotage import PACKAGES, Sabotaged, sabotage

UNIONS = {
    *("AccountantName", "ActivationName", "AnyEvent", "AttackFigure", "AttackSpec", "Adjacency"),
    *("Baseline", "CostFigure", "Clustering", "Cohort", "Dealt", "DrawnStart", "Distribution"),
    *("Encoding", "FederationSpec", "FileSpec", "Form"),
    *("GuaranteeKind", "LayerSpec", "Loss", "NoiseLaw", "Observer", "PoolingName", "PrivacySpec"),
    *("PrivacyUnit", "ReportForm", "RuleOp", "SingleEvent", "RunEnd", "StoppedBy"),
    *("TargetKind", "TrainingMethod", "ValidationUnit", "Values"),
}
"""Those that are matched to their end somewhere, and have to stay so."""

FALL_THROUGH = """
from fedaudit.spec.privacy import LaplaceL2, PrivacySpec


def noise_of(privacy: PrivacySpec) -> str:
    if isinstance(privacy, LaplaceL2):
        return "Laplace"
    return "none"
"""
TO_THE_END = """
from typing import assert_never

from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.sources import FileSource
from fedaudit.spec.table import Table


def kept_in(source: FederationSpec) -> str:
    if isinstance(source, Table):
        return "a table"
    if isinstance(source, FileSource):
        return "a file"
    assert_never(source)
"""


@pytest.fixture(scope="module")
def sabotaged(tmp_path_factory: pytest.TempPathFactory) -> Sabotaged:
    """The packages with a dummy in every union, and two modules of which one falls through."""
    samples = {"fedaudit/falls_through.py": FALL_THROUGH, "fedaudit/goes_to_the_end.py": TO_THE_END}
    return sabotage(tmp_path_factory.mktemp("sabotaged"), samples)


def test_mypy_names_every_place_that_does_not_know_a_new_member(sabotaged: Sabotaged) -> None:
    expected = sabotaged.dispatches
    assert len(expected) > 40
    missed = expected - sabotaged.named.keys()
    assert not missed, f"nothing is left over there for mypy to name: {sorted(missed)}"


def test_every_closed_union_is_matched_to_its_end_somewhere(sabotaged: Sabotaged) -> None:
    found = {union for unions in sabotaged.named.values() for union in unions}
    assert found >= UNIONS, f"no dispatch is left of {sorted(UNIONS - found)}"


def test_a_dispatch_that_falls_through_is_not_named(sabotaged: Sabotaged) -> None:
    """What makes `assert_never` necessary: mypy has nothing to say of the other form."""
    files = {place.file for place in sabotaged.named}
    assert "fedaudit/goes_to_the_end.py" in files
    assert "fedaudit/falls_through.py" not in files
    assert "fedaudit/falls_through.py:" not in sabotaged.output


def test_an_unknown_member_is_refused_at_run_time_as_well() -> None:
    class DummyEvent(Event):
        kind = "dummy"

    with pytest.raises(TypeError, match="DummyEvent is no event that is known"):
        known_event(DummyEvent())

    class DummySource(FileSource):
        pass

    with pytest.raises(TypeError, match="abstract method traits"):
        DummySource.model_validate({"path": "a"})


# -- mappings -------------------------------------------------------------------------------------


# What adapters of the client are made for; the service needs none of them.
_OTHER_FRAMEWORKS = ("flwr", "nvflare", "opacus")


def _imported(name: str) -> ModuleType | None:
    """The module; None where it is made for a framework that is not installed here."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name not in _OTHER_FRAMEWORKS:
            raise
        return None


def _modules() -> Iterator[ModuleType]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not found.name.endswith("__main__") and not found.name.startswith("migrations."):
                module = _imported(found.name)
                if module is not None:
                    yield module


def _total_mappings() -> Iterator[tuple[str, object, set[object]]]:
    """Module-level mappings whose keys are declared as the values of a literal."""
    for module in _modules():
        for name, hint in typing.get_type_hints(module).items():
            key, mapping = (*typing.get_args(hint), None)[0], getattr(module, name, None)
            declared = typing.get_origin(hint) in (dict, Mapping)
            # An empty one is no table: it stands for nothing given.
            if declared and mapping and typing.get_origin(key) is typing.Literal:
                yield f"{module.__name__}.{name}", mapping, set(typing.get_args(key))


def test_mappings_by_a_literal_have_all_of_its_values() -> None:
    found = list(_total_mappings())
    lacking = {name: keys - set(value) for name, value, keys in found if keys != set(value)}
    assert not lacking
    names = {name for name, _, _ in found}
    assert "fedaudit.reports.sections.utility.SENTENCES" in names
    assert "fedaudit.ledger.columns._REASONS" in names


def test_every_outcome_code_has_its_name() -> None:
    assert set(OUTCOMES) == set(typing.get_args(OutcomeName))
    assert [OUTCOMES[code].upper() for code in Outcome] == [code.name for code in Outcome]


def test_the_copies_of_what_an_ended_experiment_is_agree() -> None:
    ended = set(models.repositories.experiments.ENDED)
    assert ended == set(fedaudit_client.experiments.ENDED)
    assert set(typing.get_args(Status)) - ended == {"queued", "running", "cancelling"}
