"""Published faults of libraries as they were released, each found by a replay from outside.

`python -m benchmarks.foreign_zoo` prints the table of docs/elsewhere.md; with a name it plays that
one alone. Needs Opacus, Flower and jax_privacy (`make test-integrations` installs them). No code of
theirs is changed: each fault is a way to use them that they accept.
"""

import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity
from opacus import PrivacyEngine
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from fedaudit_client.step_replay import StepReplay, replay, replay_sampler

N, NOISE = 200, 1.5
Rows = np.ndarray
_ALONG = np.ones(N) / np.sqrt(N)
OTHERS: Rows = np.tile(100 * _ALONG, (7, 1))
LOUD: Rows = np.vstack([OTHERS, -10_000 * _ALONG])
"""With one unit more, opposite to all others and longer than these together."""


def _private(loader: DataLoader[Any], **more: Any) -> Any:
    layer = torch.nn.Linear(4, 1)
    made = PrivacyEngine().make_private(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=0.1),
        data_loader=loader,
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
        **more,
    )
    return made[2]


def _epochs(loader: Any) -> Callable[[], list[list[int]]]:
    return lambda: [[int(one) for one in batch] for batch in loader.batch_sampler]


def weighted_sampler() -> StepReplay:
    """opacus#813: the rate follows from the weighted sampler's count, not from the dataset."""
    data = TensorDataset(torch.randn(2000, 4))
    sampler = WeightedRandomSampler([1.0] * 2000, num_samples=128)
    private = _private(DataLoader(data, batch_size=16, sampler=sampler))
    return replay_sampler(_epochs(private), population=2000, rate=16 / 2000)


def fixed_batches() -> StepReplay:
    """Opacus with `poisson_sampling=False`, which its accountants count as Poisson's coins."""
    loader = DataLoader(TensorDataset(torch.randn(256, 4)), batch_size=16, shuffle=True)
    private = _private(loader, poisson_sampling=False)
    return replay_sampler(_epochs(private), population=256, rate=16 / 256)


def keras_batches() -> StepReplay:
    """jax_privacy#272: its accountant assumes Poisson's coins, and by default Keras shuffles."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import jax
    import keras
    from jax_privacy.keras_api import DPKerasConfig, make_private

    seen: list[int] = []
    batches: list[list[int]] = []

    class Watched(keras.layers.Layer):
        def call(self, rows: Any) -> Any:
            jax.debug.callback(lambda row: seen.extend(np.ravel(row).astype(int)), rows)
            return rows

    class Steps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            jax.effects_barrier()
            batches.append(list(seen))
            seen.clear()

    model = keras.Sequential([keras.Input((1,)), Watched(), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.0))
    config = DPKerasConfig(
        epsilon=3.0,
        delta=1e-5,
        clipping_norm=1.0,
        batch_size=16,
        gradient_accumulation_steps=1,
        train_steps=16 * 20,
        train_size=256,
        noise_multiplier=2.0,
    )
    rows = np.arange(256, dtype=np.float32)[:, None]
    private = make_private(model, config)
    private.fit(rows, rows, batch_size=16, epochs=20, verbose=0, callbacks=[Steps()])
    epochs = iter([batches[start : start + 16] for start in range(0, len(batches), 16)])
    return replay_sampler(lambda: next(epochs), population=256, rate=16 / 256)


def shuffled_loader() -> StepReplay:
    """A loader of torch that shuffles, accounted as Poisson's coins."""
    loader = DataLoader(
        TensorDataset(torch.randn(250, 4)), batch_size=16, shuffle=True, drop_last=False
    )
    return replay_sampler(_epochs(loader), population=250, rate=16 / 250)


def _optimised(generator: torch.Generator | None = None, *, seed: int | None = None) -> Any:
    """A step of Opacus on the gradients of linear losses: a row is a record's gradient."""

    def step(rows: Rows) -> Rows:
        layer = GradSampleModule(torch.nn.Linear(N, 1, bias=False), loss_reduction="mean")
        own = torch.Generator().manual_seed(seed) if seed is not None else generator
        optimizer = DPOptimizer(
            torch.optim.SGD(layer.parameters(), lr=1.0),
            noise_multiplier=NOISE,
            max_grad_norm=1.0,
            expected_batch_size=8,
            generator=own,
        )
        layer(torch.from_numpy(rows).float()).mean().backward()
        optimizer.pre_step()
        [weight] = layer.parameters()
        found: Rows = weight.grad.numpy()[0]
        return found

    return step


def honest_opacus() -> StepReplay:
    """Opacus as it is meant to be used."""
    return _of_step(_optimised())


def seeded_generator() -> StepReplay:
    """Opacus with a generator of noise that is seeded anew for each step."""
    return _of_step(_optimised(seed=3))


def _private_step(batch_size: int) -> Any:
    """A step of all rows by the optimizer that Opacus' engine makes for a loader of these rows."""

    def step(rows: Rows) -> Rows:
        features = torch.from_numpy(rows).float()
        layer = torch.nn.Linear(N, 1, bias=False)
        module, optimizer, _ = PrivacyEngine().make_private(
            module=layer,
            optimizer=torch.optim.SGD(layer.parameters(), lr=1.0),
            data_loader=DataLoader(TensorDataset(features), batch_size=batch_size),
            noise_multiplier=NOISE,
            max_grad_norm=1.0,
        )
        module(features).mean().backward()
        optimizer.pre_step()
        [weight] = module.parameters()
        found: Rows = weight.grad.numpy()[0]
        return found

    return step


def few_rows() -> StepReplay:
    """opacus#571: the mean's divisor is the number of rows, which neighbours differ in."""
    return _of_step(_private_step(8))


def floored_batch() -> StepReplay:
    """opacus#819: the divisor is rounded down, and one row more moves it, of a thousand too."""
    others = np.tile(100 * _ALONG, (1023, 1))
    loud = np.vstack([others, -1_000_000 * _ALONG])
    step = _private_step(256)
    return replay(step, loud, others, clip=1.0, noise_multiplier=NOISE, divisor=256.0)


def batch_clipped() -> StepReplay:
    """torch's `clip_grad_norm_` of a batch's mean gradient, with noise for a clip of records."""

    def step(rows: Rows) -> Rows:
        weight = torch.nn.Parameter(torch.zeros(N))
        loss: Any = (torch.from_numpy(rows).float() @ weight).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        assert weight.grad is not None
        found: Rows = weight.grad.numpy() + NOISE / 8 * np.random.standard_normal(N)
        return found

    return _of_step(step)


def _of_step(step: Any, **more: Any) -> StepReplay:
    asked = {"clip": 1.0, "noise_multiplier": NOISE, "divisor": 8.0, **more}
    return replay(step, LOUD, OTHERS, **asked)


def _message(content: RecordDict) -> Message:
    for name in ("_run_id", "_node_id", "_task_id"):  # Messages are made within a run.
        setattr(TaskIdentity, name, 1)
    return Message(content=content, message_type="train", dst_node_id=1)


def _wrapped(count: int, weights: tuple[int, ...]) -> Any:
    """Flower's wrapper on replies of clients with these updates and weights."""

    def step(rows: Rows) -> Rows:
        base = FedAvg()
        strategy = DifferentialPrivacyServerSideFixedClipping(base, NOISE, 1.0, count)
        strategy.current_arrays = ArrayRecord([np.zeros(N)])
        asked = _message(RecordDict())
        replies = []
        for row, weight in zip(rows, weights, strict=False):
            metrics = MetricRecord({"num-examples": weight})
            content = RecordDict({"arrays": ArrayRecord([row]), "metrics": metrics})
            replies.append(Message(content, reply_to=asked))
        arrays, _ = strategy.aggregate_train(1, replies)
        assert arrays is not None
        found: Rows = arrays.to_numpy_ndarrays()[0]
        return found

    return step


def _opposite(count: int) -> tuple[Rows, Rows]:
    """A client that is replaced by its opposite, last of so many."""
    others = np.tile(100 * _ALONG, (count - 1, 1))
    return np.vstack([others, -100 * _ALONG]), np.vstack([others, 100 * _ALONG])


def _of_wrapper(count: int, weights: tuple[int, ...]) -> StepReplay:
    return replay(
        _wrapped(count, weights),
        *_opposite(len(weights)),
        clip=1.0,
        noise_multiplier=NOISE,
        divisor=float(count),
        adjacency="replace-one",
    )


def honest_flower() -> StepReplay:
    """Flower's wrapper with as many clients as it assumes, of equal weight."""
    return _of_wrapper(8, (1,) * 8)


def fewer_clients() -> StepReplay:
    """Flower's wrapper for 8 sampled clients, with a mean of 4."""
    return _of_wrapper(8, (1,) * 4)


def weighted_clients() -> StepReplay:
    """Flower's wrapper around a mean weighted by numbers of examples."""
    return _of_wrapper(8, (1,) * 7 + (50,))


def _local(sensitivity: float) -> Any:
    mod = LocalDpMod(1.0, sensitivity, 1.0, 1e-5)

    def step(row: Rows) -> Rows:
        message = _message(RecordDict({"arrays": ArrayRecord([np.zeros(N)]), "c": ConfigRecord()}))

        def app(asked: Message, _: Context) -> Message:
            return Message(RecordDict({"arrays": ArrayRecord([row])}), reply_to=asked)

        reply = mod(message, Context(1, 1, {}, RecordDict(), {}), app)
        found: Rows = reply.content["arrays"].to_numpy_ndarrays()[0]
        return found

    return step


_OF_EPSILON_1 = float(np.sqrt(2 * np.log(1.25 / 1e-5)))


def local_distance() -> StepReplay:
    """Flower's `LocalDpMod` with its clip as sensitivity: two updates are two clips apart."""
    return replay(
        _local(1.0), 100 * _ALONG, -100 * _ALONG, clip=1.0, noise_multiplier=_OF_EPSILON_1
    )


def local_sensitivity() -> StepReplay:
    """Flower's `LocalDpMod` with a sensitivity below its clip, which it takes as it comes."""
    return replay(
        _local(0.1),
        100 * _ALONG,
        -100 * _ALONG,
        clip=1.0,
        noise_multiplier=_OF_EPSILON_1,
        adjacency="replace-one",
    )


_FAULTS: dict[str, tuple[str, Callable[[], StepReplay]]] = {
    "opacus-813": ("opacus", weighted_sampler),
    "opacus-571": ("opacus", few_rows),
    "opacus-819": ("opacus", floored_batch),
    "opacus-fixed-batches": ("opacus", fixed_batches),
    "opacus-seeded": ("opacus", seeded_generator),
    "jax-privacy-272": ("jax-privacy", keras_batches),
    "torch-shuffled": ("torch", shuffled_loader),
    "torch-batch-clip": ("torch", batch_clipped),
    "flower-fewer-clients": ("flwr", fewer_clients),
    "flower-weights": ("flwr", weighted_clients),
    "flower-local-distance": ("flwr", local_distance),
    "flower-local-sensitivity": ("flwr", local_sensitivity),
    "honest-opacus": ("opacus", honest_opacus),
    "honest-flower": ("flwr", honest_flower),
}


def played(name: str) -> tuple[str, StepReplay, float]:
    """The library and its version, what was found, and the seconds it took."""
    library, fault = _FAULTS[name]
    start = time.perf_counter()
    found = fault()
    return f"{library} {version(library)}", found, time.perf_counter() - start


def names() -> list[str]:
    """Faults, and honest steps beside them."""
    return list(_FAULTS)


def main() -> None:
    """Print a row for each."""
    print("| fault | library | stage | what was found | seconds |\n|---|---|---|---|---|")
    for name in sys.argv[1:] or names():
        library, found, seconds = played(name)
        text = "; ".join(one.text for one in found.findings[:1])
        print(f"| `{name}` | {library} | {found.broken or '–'} | {text or '–'} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
