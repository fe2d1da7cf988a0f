"""Hypotheses as safetensors: named tensors, and nothing that could be executed. No torch.

The tensors of hypothesis j are called `hypotheses.j.P.weight` and `hypotheses.j.P.bias`, P being
the place of the layer in the `torch.nn.Sequential` that computes the same, so that what is left
without the first two parts is the state of that module.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from fedaudit.arrays import Floats32
from fedaudit.networks.shape import NetworkShape

Tensors = Mapping[str, NDArray[Any]]

METADATA_KEY = "fedaudit"
"""A single text, in JSON: with several the library writes them in any order, and equal files would
have different hashes."""
_NAME = re.compile(r"hypotheses\.(0|[1-9]\d{0,3})\.((?:0|[1-9]\d{0,3})\.(?:weight|bias))")
_NAMED = 3
"""So many names are quoted in an error."""


class ParameterFileError(Exception):
    """The file has no parameters that can be used; the message says why, and for whom."""


def encode_hypotheses(
    shape: NetworkShape, hypotheses: Floats32, *, metadata: Mapping[str, Any]
) -> bytes:
    """A safetensors file of hypotheses [k, n]; the same for the same hypotheses and metadata."""
    return safetensors.numpy.save(
        named_tensors(shape, hypotheses),
        {METADATA_KEY: json.dumps(metadata, sort_keys=True, ensure_ascii=False)},
    )


def decode_tensors(data: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a safetensors file. Raises ParameterFileError."""
    try:
        return safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        # The library has no type in numpy for some of the format's own.
        raise ParameterFileError(f"is no safetensors file that can be read: {error}") from None


def check_tensors(tensors: Tensors) -> int:
    """How many hypotheses the tensors are the parameters of, whatever the model.

    Raises ParameterFileError where they have other names, or are not finite float32 numbers, or
    the hypotheses differ in their tensors.
    """
    own: dict[int, dict[str, tuple[int, ...]]] = {}
    for name, tensor in tensors.items():
        found = _NAME.fullmatch(name)
        if found is None:
            raise ParameterFileError(
                f"has a tensor called {name[:80]!r}; call them hypotheses.J.P.weight and "
                "hypotheses.J.P.bias, hypotheses J and places P from 0"
            )
        _check_tensor(name, tensor, tensor.shape)
        own.setdefault(int(found[1]), {})[found[2]] = tensor.shape
    if sorted(own) != list(range(len(own))) or not own:
        raise ParameterFileError("has no tensors of hypotheses.0, or leaves a number out")
    if any(one != own[0] for one in own.values()):
        raise ParameterFileError("has other tensors for one hypothesis than for another")
    return len(own)


def tensor_sizes(shape: NetworkShape, *, hypotheses: int) -> dict[str, tuple[int, ...]]:
    """The name and sizes of every tensor of so many hypotheses, in order."""
    return {
        name: sizes for j in range(hypotheses) for name, (_, sizes) in _layout(shape, j).items()
    }


def named_tensors(shape: NetworkShape, hypotheses: Floats32) -> dict[str, Floats32]:
    """The tensors of hypotheses [k, n], by their names."""
    return {
        name: np.ascontiguousarray(theta[place].reshape(sizes))
        for j, theta in enumerate(hypotheses)
        for name, (place, sizes) in _layout(shape, j).items()
    }


def hypotheses_of(tensors: Tensors, shape: NetworkShape, *, hypotheses: int) -> Floats32:
    """float32 [hypotheses, n] from a file's tensors.

    Raises ParameterFileError where they are not those of this many networks of this shape, or are
    not finite, or where two of the hypotheses are the same and would never separate.
    """
    wanted = tensor_sizes(shape, hypotheses=hypotheses)
    missing = [name for name in wanted if name not in tensors]
    unknown = sorted(name for name in tensors if name not in wanted)
    if missing:
        raise ParameterFileError(
            f"lacks {_some(missing)}: the spec's model has these tensors for each of its hypotheses"
        )
    if unknown:
        raise ParameterFileError(f"has {_some(unknown)}, which the spec's model has not")
    found = np.empty((hypotheses, shape.n), dtype=np.float32)
    for j in range(hypotheses):
        for name, (place, sizes) in _layout(shape, j).items():
            _check_tensor(name, tensors[name], sizes)
            found[j, place] = tensors[name].ravel()
    if len({theta.tobytes() for theta in found}) < hypotheses:
        raise ParameterFileError(
            "has the same parameters for two hypotheses, which would never separate; give each its "
            "own"
        )
    return found


def _layout(shape: NetworkShape, j: int) -> dict[str, tuple[slice, tuple[int, ...]]]:
    """Where each tensor of hypothesis j is in its vector, and its sizes."""
    found: dict[str, tuple[slice, tuple[int, ...]]] = {}
    for place, layer in zip(shape.places, shape.layers, strict=True):
        found[f"hypotheses.{j}.{place}.weight"] = layer.weights, layer.weight_sizes
        if layer.bias is not None:
            found[f"hypotheses.{j}.{place}.bias"] = layer.bias, (layer.outputs,)
    return found


def _check_tensor(name: str, tensor: NDArray[Any], sizes: tuple[int, ...]) -> None:
    if tensor.dtype != np.float32:
        raise ParameterFileError(f"has {name} as {tensor.dtype}; store it as float32")
    if tensor.shape != sizes:
        raise ParameterFileError(
            f"has {name} of {_words(tensor.shape)}; the spec's model takes {_words(sizes)}"
        )
    if not np.isfinite(tensor).all():
        raise ParameterFileError(f"has numbers in {name} that are not finite")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _words(sizes: Sequence[int]) -> str:
    return " by ".join(map(str, sizes)) or "no size"
