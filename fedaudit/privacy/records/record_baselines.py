"""The baselines that rPDP-FL is compared with: every record of a client is sampled alike."""

from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountants.two_stage import TwoStageRun
from fedaudit.privacy.records.record_filter import longest_lasting
from fedaudit.privacy.records.record_plans import RecordPlan, RecordSettings, run_within
from fedaudit.privacy.records.record_sampling_rates import sampling_grid

_Use = tuple[float, int]
"""The rate of a record, and for how many rounds it stays."""
Baseline = Literal["privacy-free", "uniform", "strong-for-all", "dropout", "filter"]

_SIZES_ARE_PUBLIC = "how many records each client holds, which sets their rate"
TREATED_AS_PUBLIC: dict[Baseline, tuple[str, ...]] = {
    "privacy-free": (_SIZES_ARE_PUBLIC,),
    "uniform": (_SIZES_ARE_PUBLIC,),
    "strong-for-all": (_SIZES_ARE_PUBLIC, "the smallest budget, which sets the noise"),
    "dropout": (
        _SIZES_ARE_PUBLIC,
        "the mean budget, which sets the noise and who stays",
        "how many records of each client stay, which sets their rate",
    ),
    "filter": (_SIZES_ARE_PUBLIC,),
}


def baseline_plan(
    budgets: NDArray[np.float64],
    settings: RecordSettings,
    *,
    baseline: Baseline,
    client_of: NDArray[np.int64],
    clients: int,
    batch_size: int,
    uniform_epsilon: float | None = None,
) -> RecordPlan:
    """The plan of a baseline in which a client samples `batch_size` records a step on average.

    `client_of` [records]: the client that holds each record, from 0 and below `clients`; a client
    without a record has the noise of a rate of 1. But for `filter`, every client has noise of its
    own, as its rate needs it:

    - `privacy-free`: none.
    - `uniform`: all records spend at most `uniform_epsilon`, whatever their budgets.
    - `strong-for-all`: all spend at most the smallest budget.
    - `dropout`: records below the mean budget leave, and the others spend at most the mean.
    - `filter`: the noise of rPDP-FL; a record leaves before the round that would pass its own
      budget (`fedaudit.privacy.records.record_filter`). The paper gives no figures for it, and
      which noise it had is not known.

    Raises InvalidInputError where no noise is enough.
    """
    if not len(budgets) or len(client_of) != len(budgets):
        raise ValueError("a plan needs records, and the client of each")
    staying = np.full(len(budgets), True)
    if baseline == "dropout":
        staying = budgets >= budgets.mean()
    client_rates = _client_rates(client_of, staying, batch_size, clients=clients)
    rates = np.where(staying, client_rates[client_of], 0.0)
    rounds = np.where(staying, settings.rounds, 0)
    runs: tuple[TwoStageRun, ...] | None = None
    match baseline:
        case "privacy-free":
            pass  # nothing is added
        case "filter":
            runs = (run_within(settings.epsilon_max, settings),) * len(client_rates)
            _, rounds = longest_lasting(budgets, rates, runs[0])
        case "uniform" | "strong-for-all" | "dropout":
            target, pointer = _target(baseline, budgets, uniform_epsilon)
            runs = _client_runs(settings, client_rates, target, pointer)
        case _:
            assert_never(baseline)
    return RecordPlan(
        runs=runs,
        rates=rates,
        rounds=rounds,
        spends=_spends(runs, client_of, rates, rounds),
        budgets=budgets,
    )


def _client_rates(
    client_of: NDArray[np.int64], staying: NDArray[np.bool_], batch_size: int, *, clients: int
) -> NDArray[np.float64]:
    """The rate at which each client samples those of its records that stay: [clients]."""
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size} must be 1 or more")
    sizes = np.bincount(client_of[staying], minlength=clients)
    return sampling_grid(np.minimum(batch_size / np.maximum(sizes, 1), 1.0))


def _target(
    baseline: Literal["uniform", "strong-for-all", "dropout"],
    budgets: NDArray[np.float64],
    uniform_epsilon: float | None,
) -> tuple[float, str]:
    """The largest epsilon that a record may spend, and the field that sets it."""
    match baseline:
        case "strong-for-all":
            return float(budgets.min()), "/privacy/epsilon_min"
        case "dropout":
            return float(budgets.mean()), "/privacy/epsilon_max"
        case "uniform":
            if uniform_epsilon is None:
                raise ValueError("the baseline 'uniform' needs uniform_epsilon")
            return uniform_epsilon, "/privacy/uniform_epsilon"
        case _:
            assert_never(baseline)


def _client_runs(
    settings: RecordSettings, client_rates: NDArray[np.float64], epsilon: float, pointer: str
) -> tuple[TwoStageRun, ...]:
    """The run of each client; clients with the same rate share a run."""
    by_rate = {
        rate: run_within(epsilon, settings, record_rate=rate, pointer=pointer)
        for rate in np.unique(client_rates).tolist()
    }
    return tuple(by_rate[rate] for rate in client_rates.tolist())


def _spends(
    runs: tuple[TwoStageRun, ...] | None,
    client_of: NDArray[np.int64],
    rates: NDArray[np.float64],
    rounds: NDArray[np.int64],
) -> NDArray[np.float64]:
    """What each record spends; infinite where nothing is noised.

    Clients of one run whose records have the same rates and rounds are accounted for once.
    """
    spends = np.where((rates > 0) & (rounds > 0), np.inf, 0.0)
    known: dict[tuple[TwoStageRun, frozenset[_Use]], dict[_Use, float]] = {}
    for client, run in enumerate(runs or ()):
        mine = client_of == client
        uses: list[_Use] = list(zip(rates[mine].tolist(), rounds[mine].tolist(), strict=True))
        kind = (run, frozenset(uses))
        if kind not in known:
            spent = run.epsilons(rates[mine], rounds=rounds[mine])
            known[kind] = dict(zip(uses, spent.tolist(), strict=True))
        spends[mine] = [known[kind][use] for use in uses]
    return spends
