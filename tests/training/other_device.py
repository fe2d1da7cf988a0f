"""A device that is not the processor, for tests: what an accelerator would refuse, it refuses.

Its tensors live in the processor's memory behind another device's name, and torch computes there.
What is tested with it is whether everything that belongs together lies on the device, and how often
something leaves it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

from tests.accelerator import GPU

_NAME = "other"
DEVICE = GPU or f"{_NAME}:0"
"""A GPU where one is asked for: it refuses by itself."""
_MAY_MIX = frozenset({"aten::copy_", "aten::_to_copy", "aten::index.Tensor", "aten::index_put_"})
"""What CUDA lets read the processor's memory too: copies, and places in an index."""


class OtherTensor(torch.Tensor):
    """A tensor on the device."""

    kept: torch.Tensor

    @staticmethod
    def __new__(cls, kept: torch.Tensor) -> "OtherTensor":
        """`kept`: its values, in the processor's memory."""
        made: OtherTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            kept.size(),
            strides=kept.stride(),
            storage_offset=kept.storage_offset(),
            dtype=kept.dtype,
            device=torch.device(DEVICE),
        )
        made.kept = kept
        return made

    def tolist(self) -> Any:
        """Its values on the host."""
        transfers.counted["tolist"] += 1
        return self.kept.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, op: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Every operation below autograd."""
        return _computed(op, *args, **(kwargs or {}))


class Transfers:
    """Operations that left the device since `clear`, by name."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def clear(self) -> None:
        """From here on."""
        self.counted.clear()


transfers = Transfers()
_LEAVE = frozenset({"aten::_local_scalar_dense", "aten::equal", "aten::nonzero"})


def _computed(op: Any, *args: Any, **kwargs: Any) -> Any:
    name = op.name()
    leaves = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    strangers = [one for one in leaves if not isinstance(one, OtherTensor) and one.dim()]
    on_device = [one for one in leaves if isinstance(one, OtherTensor)]
    if strangers and on_device and name not in _MAY_MIX:
        shapes = [tuple(one.shape) for one in strangers]
        raise RuntimeError(f"{name}: tensors {shapes} are not on {DEVICE}, and others are")
    asked = kwargs.get("device")
    leaves_it = asked is not None and torch.device(asked).type == "cpu"
    if name in _LEAVE or (on_device and leaves_it) or _copies_out(name, args):
        transfers.counted[name] += 1
    placed = {**kwargs, "device": torch.device("cpu")} if asked is not None else kwargs
    found = op(*tree_map(_kept, args), **tree_map(_kept, placed))
    if leaves_it or _copies_out(name, args):
        return found
    own = {id(one.kept): one for one in on_device}
    return tree_map(lambda one: _back(one, own), found)


def _copies_out(name: str, args: Any) -> bool:
    return name == "aten::copy_" and not isinstance(args[0], OtherTensor)


def _kept(one: Any) -> Any:
    return one.kept if isinstance(one, OtherTensor) else one


def _back(one: Any, own: dict[int, OtherTensor]) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    return own.get(id(one)) if id(one) in own else OtherTensor(one)


def _register() -> Callable[[], None]:
    backend_registration._setup_privateuseone_for_python_backend(_NAME)
    library = torch.library.Library("_", "IMPL")
    library.fallback(_computed, dispatch_key="PrivateUse1")
    # Kept alive with the process: with the library its registrations would go.
    return library._destroy


# One process has one accelerator: beside a GPU autograd would take this one for it.
_LIBRARY = None if GPU else _register()
_TENSOR = torch.tensor


def tensor(values: Any, **options: Any) -> torch.Tensor:
    """`torch.tensor`, which cannot make one on a device that is written in Python."""
    device = options.pop("device", "cpu")
    return _TENSOR(values, **options).to(device)
