"""Keep a ledger from within a training by Opacus. Needs the extra `opacus`.

The figures are those of records: each step releases noised gradients of a sample of one client's
rows.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from opacus.data_loader import DPDataLoader
from opacus.optimizers import (
    AdaClipDPOptimizer,
    DistributedDPOptimizer,
    DPOptimizer,
    DPOptimizerFastGradientClipping,
)
from opacus.utils.batch_memory_manager import BatchSplittingSampler
from torch.utils.data import BatchSampler, ConcatDataset, RandomSampler, SequentialSampler, Subset

from fedaudit_client.adapters.canaries import Canaries, PlantedCanaries
from fedaudit_client.adapters.plain import Event, Ledger, OpenRound, of_epsilon

_ROWS_AT_ONCE = 16
_ALIKE = 1e-3
"""How much of a clip the optimizer's sum may differ from that of clipped gradients."""


def terms_for(
    optimizer: DPOptimizer,
    data_loader: Any,
    *,
    name: str,
    delta: float,
    budget: float | None = None,
    accountant: str = "rdp",
) -> dict[str, Any]:
    """The terms of a ledger for `attach`, with the same optimizer and loader.

    `budget`: the most epsilon at `delta`. `accountant`: `rdp`, or `pld`, which is Opacus' prv.
    Raises ValueError where the optimizer is none of Opacus', or clips adaptively.
    """
    _check(optimizer)
    of_records = {"mechanism": "gaussian", "observer": "server", "unit": "record"}
    counted = of_epsilon("add-or-remove-one", delta=delta, budget=budget, accountant=accountant)
    return {"name": name, "population": len(data_loader.dataset), **of_records, **counted}


def _check(optimizer: object) -> None:
    if not isinstance(optimizer, DPOptimizer):
        raise ValueError("give the optimizer that `PrivacyEngine.make_private` returned")
    if isinstance(optimizer, AdaClipDPOptimizer):
        raise ValueError(_ADAPTIVE)


_ADAPTIVE = (
    "adaptive clipping also releases how many records were clipped, of a batch whose size is "
    'secret, which no event of a ledger counts: take `clipping="flat"` or "per_layer", and under '
    "ghost clipping the same clip and noise in each step"
)
_SCHEDULED = (
    "the noise multiplier changed under ghost clipping, as earlier versions of Opacus change it "
    "where they clip adaptively, and so release more than the ledger counts: `attach` anew "
    "for each multiplier, or train without ghost clipping"
)
_SEVERAL = (
    "gradients of several batches would make one step, and a record in j of them enters it with j "
    "clips, where the noise hides one: make a step of each batch, with a larger `batch_size`, and "
    "let Opacus' BatchMemoryManager split what does not fit into memory"
)
_REPEATS = (
    "a batch of this loader may hold a record twice, with two clips, where the noise hides one: "
    "give the loader that `make_private` returned, by `poisson_sampling` or of a loader without a "
    "custom sampler (`shuffle` is allowed; for some rows take a `Subset` of each once)"
)


def _may_repeat(data_loader: Any) -> bool:
    """Whether a batch may hold a record twice; not where Opacus or torch itself draws without
    replacement."""
    batches = getattr(data_loader, "batch_sampler", None)
    rows: Any = getattr(batches, "sampler", None)
    if type(batches) is BatchSampler and type(rows) in (RandomSampler, SequentialSampler):
        if getattr(rows, "replacement", False) or len(rows) > len(rows.data_source):
            return True
    elif not isinstance(data_loader, DPDataLoader):
        return True
    return _holds_twice(data_loader.dataset)


def _holds_twice(dataset: Any) -> bool:
    """Whether one record is several rows of a data set, as far as its kind shows that."""
    if isinstance(dataset, Subset):
        rows = list(dataset.indices)
        return len(set(rows)) < len(rows) or _holds_twice(dataset.dataset)
    parts = dataset.datasets if isinstance(dataset, ConcatDataset) else []
    return len({id(one) for one in parts}) < len(parts) or any(map(_holds_twice, parts))


@dataclass(eq=False)
class WatchedSteps:
    """The steps of one optimizer, as rounds of a ledger; `attach` makes one. To be used as a
    context manager."""

    _optimizer: DPOptimizer
    _ledger: Ledger
    _subject: str
    _rate: float | None
    _steps_per_round: int
    _canaries: "CanaryGradients | None"
    _round: OpenRound | None = field(default=None, init=False)
    _event: Event = field(default_factory=dict, init=False)
    """What each step of the round that is open releases."""
    _steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._before: Callable[[Any], None] | None = self._optimizer.step_hook
        self._optimizer.attach_step_hook(self._stepped)
        self._optimizer.signal_skip_step = self._skips
        self._first = self._optimizer.noise_multiplier, self._optimizer.max_grad_norm

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Declare the steps that are left, and leave the optimizer as it was."""
        self._declare()
        if self._canaries is not None:
            self._canaries.close()
        if self._optimizer.step_hook == self._stepped:
            self._optimizer.attach_step_hook(self._before)
        if self._optimizer.__dict__.get("signal_skip_step") == self._skips:
            del self._optimizer.signal_skip_step

    def _skips(self, do_skip: bool = True) -> None:
        """Instead of the optimizer's own. The parts of one batch are disjoint where Opacus splits
        it. Raises ValueError for anyone else."""
        if do_skip and sys._getframe(1).f_code is not BatchSplittingSampler.__iter__.__code__:
            raise ValueError(_SEVERAL)
        type(self._optimizer).signal_skip_step(self._optimizer, do_skip)

    def _stepped(self, optimizer: DPOptimizer) -> None:
        """Before the parameters change. Raises RoundRefused, or ValueError for a step that cannot
        be counted, and they stay as they are."""
        event = self._event_of(optimizer)
        planted = None if self._canaries is None else self._canaries.planted
        if self._round is None or event != self._event:
            self._declare()
            self._round = self._ledger.reserve(
                self._ledger.next_round,
                event=_with_steps(event, self._steps_per_round),
                participants=[self._subject],
                canaries=planted,
            )
            self._event = event
        if self._canaries is not None:
            self._canaries.read()
        self._steps += 1
        if self._before is not None:
            self._before(optimizer)
        if self._steps >= self._steps_per_round:
            self._declare()
            self._ledger.stop_on_alarm(planted)

    def _event_of(self, optimizer: DPOptimizer) -> dict[str, Any]:
        if optimizer.accumulated_iterations > 1:
            raise ValueError(_SEVERAL)
        # Under ghost clipping the loss adapts the clip, and not the optimizer.
        if isinstance(optimizer, DPOptimizerFastGradientClipping):
            noise, clip = self._first
            if clip != optimizer.max_grad_norm or hasattr(optimizer, "_adjusted_noise_multiplier"):
                raise ValueError(_ADAPTIVE)
            if noise != optimizer.noise_multiplier:
                raise ValueError(_SCHEDULED)
        multiplier = float(optimizer.noise_multiplier)
        if multiplier == 0:
            return {"kind": "none"}
        if self._rate is None:
            return {"kind": "gaussian", "noise_multiplier": multiplier}
        return {"kind": "poisson-gaussian", "rate": self._rate, "noise_multiplier": multiplier}

    def _declare(self) -> None:
        if self._round is None:
            return
        if self._steps == 0:
            self._ledger.release(self._round.number)
        else:
            self._round.event = _with_steps(self._event, self._steps)
            self._round.settle([self._subject])
        self._round, self._steps = None, 0


class CanaryGradients:
    """Canaries among the gradients of records that an optimizer clips, in every one of its steps.

    It has to see each record's gradient before the clip, what `clip_and_accumulate` makes of all of
    them, and the noised gradient behind it. What the canaries added is taken out again before the
    parameters change, so that they cost the training nothing but time and memory.
    """

    def __init__(self, optimizer: DPOptimizer, planted: PlantedCanaries) -> None:
        """Raises ValueError where gradients of single records, or one clip for each, cannot be
        seen: ghost clipping, clips by layer, adaptive clips, several processes."""
        own = type(optimizer).clip_and_accumulate is not DPOptimizer.clip_and_accumulate
        if own or isinstance(optimizer, DistributedDPOptimizer):
            raise ValueError(
                f"{type(optimizer).__name__}: canaries need each record's gradient and one clip "
                "for all of it, in one process; use a plain DPOptimizer, or leave `audit` out"
            )
        self.planted = planted
        self._optimizer = optimizer
        self._clip_all: Callable[[], None] = optimizer.clip_and_accumulate
        self._known: np.ndarray | float | None = None
        """The sum of the records' clipped gradients, of the step that is being made."""
        optimizer.clip_and_accumulate = self._clip

    def close(self) -> None:
        """Leave the optimizer as it was."""
        if self._optimizer.__dict__.get("clip_and_accumulate") == self._clip:
            del self._optimizer.clip_and_accumulate

    def _clip(self) -> None:
        """Instead of the optimizer's own, for each batch of a step."""
        first, parameters = self._known is None, self._optimizer.params
        rows = _flat([one.flatten(1) for one in self._optimizer.grad_samples], dim=1)
        lengths = np.linalg.norm(rows, axis=1)
        shorter = np.minimum(1.0, self.planted.clip / np.maximum(lengths, 1e-300))
        self._known = (0.0 if self._known is None else self._known) + shorter @ rows
        self._clip_all()
        if not first:
            return
        samples = [one.grad_sample for one in parameters]
        sent = self.planted.begin(rows.shape[1])
        for start in range(0, len(sent), _ROWS_AT_ONCE):
            some = torch.from_numpy(sent[start : start + _ROWS_AT_ONCE])
            for one, part in zip(parameters, _parts(some, parameters), strict=True):
                one.grad_sample = part
            self._clip_all()
        for one, before in zip(parameters, samples, strict=True):
            one.grad_sample = before

    def read(self) -> None:
        """After the noise. Raises ValueError where the optimizer's sum is not that of gradients
        clipped to its `max_grad_norm`, so that what left cannot be read."""
        optimizer, known, self._known = self._optimizer, self._known, None
        if known is None:
            raise ValueError("a step was made that clipped nothing: canaries cannot be read")
        scale = 1.0
        if optimizer.loss_reduction == "mean":
            scale = float(optimizer.expected_batch_size)
        parameters = optimizer.params
        left = _flat([one.grad for one in parameters]) * scale
        added = self.planted.end(left - known)
        summed = _flat([one.summed_grad for one in parameters])
        if np.abs(summed - known - added).max() > _ALIKE * self.planted.clip:
            raise ValueError(
                "the optimizer's sum is not that of gradients clipped to its max_grad_norm, so "
                "canaries cannot be read; `fedaudit_client.replay` names the stage"
            )
        taken = torch.from_numpy(added / scale)
        for one, part in zip(parameters, _parts(taken[None], parameters), strict=True):
            one.grad -= part[0]


def _flat(parts: list[torch.Tensor], *, dim: int = 0) -> np.ndarray:
    """Side by side, in double precision."""
    whole = [one.detach() if dim else one.detach().flatten() for one in parts]
    found: np.ndarray = torch.cat([one.cpu().double() for one in whole], dim=dim).numpy()
    return found


def _parts(rows: torch.Tensor, parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    """Rows [rows, n] as gradients of each parameter."""
    split = torch.split(rows, [one.numel() for one in parameters], dim=1)
    return [
        part.reshape(-1, *one.shape).to(device=one.device, dtype=one.dtype)
        for part, one in zip(split, parameters, strict=True)
    ]


def attach(
    optimizer: DPOptimizer,
    data_loader: Any,
    ledger: Ledger,
    *,
    subject: str,
    steps_per_round: int | None = None,
    audit: Canaries | None = None,
) -> WatchedSteps:
    """Declare the steps of an optimizer for the client `subject`, whose rows it trains on.

    Optimizer and loader are those that `PrivacyEngine.make_private` returned; the optimizer's one
    hook, which belongs to Opacus' accountant, is called as before. A round is an epoch, or
    `steps_per_round` steps of the same noise and rate: reserved before its first step, which
    raises RoundRefused and changes nothing where there is no room, and declared behind its last.
    A loader that does not sample by Poisson's coins is declared without amplification. `audit`:
    canaries in the gradients of every step (`CanaryGradients`). Raises ValueError where the
    ledger's figures are not of records, the optimizer is none of Opacus' or clips adaptively, a
    batch may hold a record twice, or canaries cannot see its gradients.
    """
    _check(optimizer)
    if _may_repeat(data_loader):
        raise ValueError(_REPEATS)
    if ledger.terms["unit"] != "record":
        raise ValueError("Opacus protects records; open a ledger whose unit is record")
    epoch = len(data_loader)
    rate = None
    if isinstance(data_loader, DPDataLoader):
        # The first is the engine's figure, and that of its accountants.
        rate = max(1 / epoch, float(data_loader.sample_rate))
    canaries = None
    if audit is not None:
        planted = ledger.canaries(audit, clip=float(optimizer.max_grad_norm))
        canaries = CanaryGradients(optimizer, planted)
    return WatchedSteps(optimizer, ledger, subject, rate, steps_per_round or epoch, canaries)


def _with_steps(event: Event, steps: int) -> dict[str, Any]:
    return {**event} if event["kind"] == "none" else {**event, "steps": steps}
