"""What noise and rounding of fairness counts must agree on with the rest of a spec."""

from typing import Any, assert_never

from fedaudit.spec.errors import refuse_at
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.sources import Source
from fedaudit.spec.training import Training

_ROUNDED_BY_DEFAULT, _NOT_ROUNDED = {"base": 5}, {"base": 1}
_ALWAYS_STORED = {
    "spec_version",
    "name",
    "seed",
    "tags",
    "federation",
    "model",
    "training",
    "privacy",
    "fairness",
    "attacks",
    "gates",
    "device",
}
_OF_FAIRNESS = {
    "sensitive",
    "edges",
    "favourable",
    "minimum_group_size",
    "intersections",
    "reference_group",
    "intervals",
}
"""What every stored spec has, and none that a person wrote: every default written out."""


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
    stored = value.keys() >= _ALWAYS_STORED and fairness.keys() >= _OF_FAIRNESS
    if "rounding" not in fairness and stored:
        return value
    # Null is not stored, so that it must not mean anything beside its being left out.
    chosen = _NOT_ROUNDED if "rounding" in fairness else _ROUNDED_BY_DEFAULT
    return {**value, "fairness": {**fairness, "rounding": dict(chosen)}}


def check_count_noise(
    fairness: Fairness, *, training: Training, source: Source, has_outcome: bool
) -> None:
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
            if getattr(source, "standardise", None) == "client" and not source.holds_out_rows:
                raise refuse_at(
                    "/fairness/noise/unit",
                    "with `standardise: client` one record moves the features of its client's "
                    "other records; use the unit `client`, or `standardise: global`",
                )
        case _:
            assert_never(noise.unit)
