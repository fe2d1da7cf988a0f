"""What goes into a trained model and what comes out: features, scales and classes, in their order.

Tensors alone predict nothing, and whoever guesses the order of two classes gets the opposite one.
Most of it is declared in the spec. What follows from the data instead, the classes and columns that
they have, is disclosed to fewer people than the model is.
"""

from collections.abc import Iterator
from typing import Any, assert_never

from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.hospital import FEATURES
from fedaudit.federations.packing import EVERY_NUMBER, Scales
from fedaudit.spec.federation import (
    FederationSpec,
    HospitalCharges,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.images import Femnist, Images
from fedaudit.spec.table import Feature, Table

Layout = dict[str, Any]

_FORMAT = "fedaudit-layout-1"
_INSTEAD = "`fedaudit model ID --layout FILE` states them, under the scope federations:read"
_CLASSES = f"the classes are those that the data have, and no spec declares them: {_INSTEAD}"
_FEATURES = f"the features are all columns of the data, and the spec names none: {_INSTEAD}"


def model_layout(source: FederationSpec, federation: Federation) -> Layout:
    """The whole layout, as JSON. Confidential: it has the classes and columns of the data.

    `features`: in the order of the inputs, null of images. Each has its `column`, and where they
    apply: `category` (the input is 1 for it, 0 for others), `categories` (it is the position among
    them), `scale`, and `fill` (for empty cells). `image`: height, width, channels and divisor.
    `classes`: in the order of the outputs, null of a number, which is the output times
    `target_scale`. `positive`: the second of two classes, where the spec names it.
    """
    features = (
        None
        if isinstance(federation.features, ClientRows)
        else [*_features(source, federation.feature_names)]
    )
    return {
        "format": _FORMAT,
        "features": features,
        "image": _image(federation),
        "standardise": source.standardise if isinstance(source, Table) else None,
        "target": federation.target_name,
        "target_scale": None if federation.classes else federation.target_scale,
        "classes": list(federation.classes) or None,
        "positive": source.positive if isinstance(source, Table) else None,
        "reasons": {},
    }


def declared_layout(layout: Layout, source: FederationSpec) -> Layout:
    """What of a layout follows from the spec alone; the rest is null, with a reason."""
    reasons = {}
    if layout["classes"] is not None and not _declares_classes(source):
        reasons["classes"] = _CLASSES
    if isinstance(source, Table) and source.features == "all":
        reasons["features"] = _FEATURES
    return {**layout, **dict.fromkeys(reasons), "reasons": reasons}


def _declares_classes(source: FederationSpec) -> bool:
    match source:
        case Images():
            return source.classes is not None
        case Femnist():
            return True
        case Table() | HospitalCharges() | SyntheticLinear() | SyntheticGroups():
            return False
        case _:
            assert_never(source)


def _features(source: FederationSpec, names: tuple[str, ...]) -> Iterator[Layout]:
    match source:
        case Table():
            # Not validated: a file's own names may be longer than a spec would allow.
            every = [Feature.model_construct(name=name) for name in names]
            for item in every if source.features == "all" else source.features:
                feature = Feature(name=item) if isinstance(item, str) else item
                yield from _inputs(feature, source.scale)
        case HospitalCharges():
            for name in names:
                codes = [str(code) for code in source.conditions] if name == FEATURES[0] else None
                scale = source.scale.get(name, source.scale.get(EVERY_NUMBER))
                yield _input(name, {"categories": codes, "scale": scale})
        case Images() | Femnist() | SyntheticLinear() | SyntheticGroups():
            for name in names:
                yield _input(name, {})
        case _:
            assert_never(source)


def _inputs(feature: Feature, scales: Scales) -> Iterator[Layout]:
    """Those of a column: one, or one for each of its categories."""
    filled = {"fill": feature.fill}
    own = scales.get(feature.name)
    if feature.categories is None:
        yield _input(feature.name, {"scale": own or scales.get(EVERY_NUMBER), **filled})
        return
    match feature.encoding:
        case "ordinal":
            more = {"categories": feature.categories, "scale": own, **filled}
            yield _input(feature.name, more)
        case "one-hot":
            for category in feature.categories:
                yield _input(feature.name, {"category": category, **filled})
        case _:
            assert_never(feature.encoding)


def _input(column: str, more: Layout) -> Layout:
    scale = more.get("scale")
    if isinstance(scale, int | float):
        more = {**more, "scale": {"divisor": scale}}
    elif scale is not None:
        more = {**more, "scale": scale.model_dump(mode="json")}
    return {"column": column, **{name: one for name, one in more.items() if one is not None}}


def _image(federation: Federation) -> Layout | None:
    features = federation.features
    if not isinstance(features, ClientRows):
        return None
    shape = None if features.image is None else list(features.image)
    return {"height_width_channels": shape, "divisor": features.divisor}
