"""Small specs of every mechanism that is counted as an epsilon with a delta."""

from typing import Any

from tests.spec.documents import BY_RECORD, gaussian
from tests.workers.admission import spec_with

_POISSON = {"sampling": "poisson", "rate": 0.4}


def central(**privacy: Any) -> dict[str, Any]:
    """A trusted server and a cohort of fixed size."""
    return spec_with(training__hypotheses=1, privacy=gaussian("central", 2.0, **privacy))


def central_by_coins(**privacy: Any) -> dict[str, Any]:
    """A trusted server, and a coin for each client."""
    return {**central(**privacy), "training": {**central()["training"], "cohort": _POISSON}}


def central_by_blocks(**privacy: Any) -> dict[str, Any]:
    """A trusted server, and each client once in every four of the twelve rounds."""
    blocks = {"sampling": "allocation", "every": 4}
    return {**central(**privacy), "training": {**central()["training"], "cohort": blocks}}


def local(**privacy: Any) -> dict[str, Any]:
    """Clients that add the noise themselves."""
    return spec_with(training__hypotheses=1, privacy=gaussian("local", 2.0, **privacy))


def by_record(*, rate: float = 0.4, **privacy: Any) -> dict[str, Any]:
    """Records with budgets of their own."""
    return spec_with(
        training__hypotheses=1,
        training__loss="mse",
        training__cohort={"sampling": "poisson", "rate": rate},
        training__local={"steps": 2, "step_size": 0.1},
        privacy={**BY_RECORD, **privacy},
    )


def released(spec: dict[str, Any]) -> dict[str, Any]:
    """The same with noise that nobody can draw again, whose model may leave."""
    return {**spec, "privacy": {**spec["privacy"], "noise": "release"}}


EPSILON_SPECS = {
    "central": central(),
    "central-by-coins": central_by_coins(),
    "central-by-blocks": central_by_blocks(),
    "local": local(),
    "by-record": by_record(),
}
