"""What noise and rounding of fairness counts must agree on with the rest of a spec."""

from typing import Any, assert_never

from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.sources import Source
from fedaudit.spec.stored_spec import is_stored
from fedaudit.spec.training import Training

_ROUNDED_BY_DEFAULT, _NOT_ROUNDED = {"base": 5}, {"base": 1}
_OF_FAIRNESS = {
    "sensitive",
    "edges",
    "favourable",
    "minimum_group_size",
    "intersections",
    "reference_group",
    "intervals",
}
"""What every stored spec has in `fairness`."""


def with_default_rounding(value: Any) -> Any:
    """The document of a spec, its counts rounded where the model is released and nothing is said.

    A spec that was stored before there was rounding says every other thing, and stays what it was.
    Anything that is no such document is given back as it is, for validation to refuse.
    """
    if not isinstance(value, dict) or not isinstance(value.get("privacy"), dict):
        return value
    fairness = value.get("fairness", {})
    if not isinstance(fairness, dict) or fairness.get("rounding") or fairness.get("noise"):
        return value
    if value["privacy"].get("noise") != "release" or not fairness.get("sensitive"):
        return value
    stored = is_stored(value) and fairness.keys() >= _OF_FAIRNESS
    if "rounding" not in fairness and stored:
        return value
    # Null is not stored, so that it must not mean anything beside its being left out.
    chosen = _NOT_ROUNDED if "rounding" in fairness else _ROUNDED_BY_DEFAULT
    return {**value, "fairness": {**fairness, "rounding": dict(chosen)}}


def publishes_noised_rounds(fairness: Fairness) -> bool:
    """Whether the gaps of validated rounds are published from counts with noise."""
    return fairness.noise is not None and fairness.noise.rounds


def check_count_noise(
    fairness: Fairness, *, training: Training, source: Source, has_outcome: bool
) -> Refusals:
    """Where something would escape `fairness.noise`, or nothing is counted: errors of a spec's
    validation, at the fields."""
    noise = fairness.noise
    if noise is None:
        return
    if not fairness.sensitive:
        yield refuse_at(
            "/fairness/sensitive", "`noise` is given, so name a sensitive attribute to count by"
        )
    if not has_outcome:
        yield refuse_at(
            "/fairness/favourable",
            "`noise` is added to counts of favourable outcomes; say which outcome is favourable",
        )
    if training.stopping.patience is not None:
        yield refuse_at(
            "/training/stopping/patience",
            "would end training by losses of the people whom fairness.noise protects, which have "
            "no noise; use null, or leave out fairness.noise",
        )
    if noise.rounds and training.stopping.validation_clients is not None:
        yield refuse_at(
            "/fairness/noise/rounds",
            "is charged to every held-out client in every validated round, and a round that scores "
            "a sample of them charges the others too; leave `validation_clients` out, or `rounds`",
        )
    match noise.unit:
        case "client":
            pass
        case "record":
            if training.hypotheses > 1:
                yield refuse_at(
                    "/fairness/noise/unit",
                    "with several hypotheses one record decides which of them predicts its "
                    "client's other records; use the unit `client`, or one hypothesis",
                )
            if training.method.personalises:
                yield refuse_at(
                    "/fairness/noise/unit",
                    f"with {training.method.kind} one record moves the model that predicts its "
                    "client's other records; use the unit `client`, or the method `hypotheses`",
                )
            if source.traits.statistics == "of each client" and not source.holds_out_rows:
                yield refuse_at(
                    "/fairness/noise/unit",
                    "with `standardise: client` one record moves the features of its client's "
                    "other records; use the unit `client`, or declare constants under `scale`",
                )
        case _:
            assert_never(noise.unit)
