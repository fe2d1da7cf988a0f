"""Noise as it is drawn for the rounds of a run, played or not, and for many more.

Drawing costs little beside training: the rounds that a run has left, and rounds that no run
reaches, are drawn in blocks as an engine draws them.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.replay.noise_dependence import as_normal, dependence_law
from fedaudit.attacks.replay.noise_law import Tests, gaussian_law, laplace_law
from fedaudit.attacks.replay.passed_through import Floats
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.training.mechanisms.base import ClientProtection, TrustedServer
from fedaudit.training.stacked.stack_round import build_draws

_PROBED_NUMBERS = 1 << 17
_MOST_ROUNDS = 4000
_BEYOND = 1 << 20
"""The first of the rounds that no run reaches."""
_BLOCK = 64


def drawn_noise(
    replayed: Replayed, round_: int, clients: NDArray[np.int64] | None = None
) -> Floats:
    """What was drawn ahead for a round, or else what is drawn for it now: [vectors, n].

    `clients`: of a mechanism of clients, whose noise it is.
    """
    found = replayed.base.passed.drawn_noise(round_)
    return draw(replayed, np.array([round_]), clients)[0][0] if found is None else found


def draw(
    replayed: Replayed, rounds: NDArray[np.int64], clients: NDArray[np.int64] | None
) -> tuple[Floats, Floats | None]:
    """The noise of some rounds, [rounds, vectors, n], and of their counts, [rounds]."""
    passed = replayed.base.passed
    draws, column = passed.draws or build_draws([replayed.base.cell]), rounds[:, None]
    match passed.protection:
        case TrustedServer() as server:
            found = server.draw(draws, column)
            return found.sums[:, 0], None if found.counts is None else found.counts[:, 0]
        case ClientProtection() as own:
            assert clients is not None
            everyone = np.broadcast_to(clients, (len(rounds), 1, len(clients)))
            noise = own.draw(draws, column, everyone)
            assert noise is not None
            return noise[:, 0], None
        case None:
            raise RuntimeError("no protection was looked at")
        case _:
            assert_never(passed.protection)


def check_law(replayed: Replayed, findings: Findings) -> None:
    """Tests the law of what was drawn, of the rounds that were played and of many more."""
    charged, sizes = replayed.charged, replayed.laplace_sizes
    played = [*_played(replayed)]
    many, counts = _many_more(replayed)
    if not played:
        return
    whole = np.concatenate([one.reshape(-1, charged.n) for one in (*many, *dict(played).values())])
    _test(findings, gaussian_law(whole) if sizes is None else laplace_law(whole, sizes))
    _test(findings, dependence_law(_in_place(played, sizes)))
    for series in many:
        _test(findings, dependence_law(as_normal(series, sizes)))
    if counts:
        of_count = np.concatenate(counts)[:, None]
        _test(findings, gaussian_law(of_count), ", of the count")
        _test(findings, dependence_law(of_count[:, None]), ", of the count")


def _many_more(replayed: Replayed) -> tuple[list[Floats], list[Floats]]:
    """The noise of all rounds of the run, and of rounds beyond, [rounds, vectors, n] each, and that
    of their counts."""
    clients = None
    if replayed.role == "local-steps":
        return [], []  # drawn step by step, where it is heard
    if replayed.role == "clients":
        clients = np.unique(np.append(replayed.charged_clients(1), replayed.pair.client))
    vectors = replayed.spec.training.hypotheses if clients is None else len(clients)
    probes = min(_MOST_ROUNDS, _PROBED_NUMBERS // (replayed.charged.n * vectors))
    own = min(replayed.spec.training.rounds, probes)
    noise, counts = [], []
    for first, last in ((1, own + 1), (_BEYOND, _BEYOND + probes - own)):
        rounds = np.arange(first, last)
        blocks = [
            draw(replayed, rounds[begin : begin + _BLOCK], clients)
            for begin in range(0, len(rounds), _BLOCK)
        ]
        if blocks:
            noise.append(np.concatenate([one for one, _ in blocks]))
        counts += [one for _, one in blocks if one is not None]
    return noise, counts


def _test(findings: Findings, law: Tests, suffix: str = "") -> None:
    for name, pvalue in law:
        findings.test("noise", name + suffix, pvalue)


def _played(replayed: Replayed) -> Iterator[tuple[tuple[int, int], Floats]]:
    """The noise of what was played, each [n], by round (or step) and hypothesis, client or silo."""
    for round_ in range(1, replayed.base.rounds + 1):
        for part in replayed.base.passed.steps.get(round_, []):
            for step, vectors in enumerate(part.unit_noise):
                first = (round_ - 1) * len(part.unit_noise)
                for silo, noise in zip(part.silos, vectors, strict=False):
                    yield (first + step, int(silo)), noise
        if replayed.role == "local-steps":
            continue
        if replayed.role == "server":
            whose = [np.arange(replayed.spec.training.hypotheses)]
        else:
            whose = [*replayed.clients_of_uploads(round_)]
        for units in whose:
            for unit, noise in zip(units, drawn_noise(replayed, round_, units), strict=False):
                yield (round_ - 1, int(unit)), noise


def _in_place(
    played: Sequence[tuple[tuple[int, int], Floats]], sizes: Sequence[int] | None
) -> Floats:
    """As normal numbers [rounds, units, n], every unit in the same place in all rounds."""
    rounds, units = (np.array([where[axis] for where, _ in played]) for axis in (0, 1))
    normal = [as_normal(noise, sizes) for _, noise in played]
    different, places = np.unique(units, return_inverse=True)
    found = np.full((int(rounds.max()) + 1, len(different), len(normal[0])), np.nan)
    found[rounds, places] = normal
    return found
