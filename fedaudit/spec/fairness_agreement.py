"""What noise and rounding of fairness counts must agree on with the rest of a spec."""

from typing import Any, assert_never

from fedaudit.spec.errors import refuse_at
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.training import Training

_ROUNDED_BY_DEFAULT = {"base": 5}


def with_default_rounding(value: Any) -> Any:
    """The document of a spec, its counts rounded where the model is released and nothing is said.

    Anything that is no such document is given back as it is, for validation to refuse.
    """
    if not isinstance(value, dict) or not isinstance(value.get("privacy"), dict):
        return value
    fairness = value.get("fairness", {})
    if not isinstance(fairness, dict) or "rounding" in fairness or fairness.get("noise"):
        return value
    if value["privacy"].get("noise") != "release" or not fairness.get("sensitive"):
        return value
    return {**value, "fairness": {**fairness, "rounding": dict(_ROUNDED_BY_DEFAULT)}}


def check_count_noise(fairness: Fairness, *, training: Training, has_outcome: bool) -> None:
    """Refuse `fairness.noise` where something would escape it, or nothing is counted.

    Raises the error of a spec's validation, at the field.
    """
    noise = fairness.noise
    if noise is None:
        return
    if not fairness.sensitive:
        raise refuse_at(
            "/fairness/sensitive", "`noise` is given, so name a sensitive attribute to count by"
        )
    if not has_outcome:
        raise refuse_at(
            "/fairness/favourable",
            "`noise` is added to counts of favourable outcomes; say which outcome is favourable",
        )
    if training.stopping.patience is not None:
        raise refuse_at(
            "/training/stopping/patience",
            "would end training by losses of the people whom fairness.noise protects, which have "
            "no noise; use null, or leave out fairness.noise",
        )
    match noise.unit:
        case "client":
            pass
        case "record":
            if training.hypotheses > 1:
                raise refuse_at(
                    "/fairness/noise/unit",
                    "with several hypotheses one record decides which of them predicts its "
                    "client's other records; use the unit `client`, or one hypothesis",
                )
        case _:
            assert_never(noise.unit)
