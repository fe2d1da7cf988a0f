"""The attack `cluster-membership`: the hypothesis that a client chose, named from its upload.

In a round from the trained hypotheses, beside the run, every training client makes one upload at
each noise multiplier. Choice, local update, noise and clustering are those of training itself
(`fedaudit.training`), in cohorts of the run's size; the seed of the noise is another.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from fedaudit.arrays import Bools, Floats, Floats32, Ints
from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress, source_of
from fedaudit.attacks.attack_files import csv_table
from fedaudit.attacks.membership.member_rates import clopper_pearson
from fedaudit.fairness.disclosure import DisclosureRule, size_rule
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.leakage import MIN_RELEASES, part_distances
from fedaudit.randomness import Purpose, Source
from fedaudit.reports.sections.attacks import (
    ClusterMembershipResult,
    ClusterMembershipSection,
    NamedShare,
)
from fedaudit.reports.sections.between_hypotheses import pair_figures, rates_of
from fedaudit.reports.sections.part import or_why, with_reasons
from fedaudit.spec.attacks import ClusterMembershipSpec
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.spreadsheet import plain_text
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.base.cohort import Block
from fedaudit.training.base.records import training_records
from fedaudit.training.engine import build_engines
from fedaudit.training.stacked.stack_round import Cohort, RoundResult

CONFIDENCE = 0.95
"""Confidence level of intervals."""
MAX_CLIENTS = 20_000
MAX_UPLOADED = 1 << 30
"""Numbers that the clients of one noise multiplier upload at most."""
_NEAR_ALL = "suppressed: few clients chose another hypothesis than the most frequent one"
_NO_EXPONENT = f"fewer than {MIN_RELEASES} uploads: it would nearly state the norm of an update"
_NOTHING_SENT = "no client's update was finite, so nothing was sent"
_SAME = "two hypotheses are equal"
_CAPABILITIES = [
    "Is the server: has the hypotheses that it sent out, and each client's upload with its noise.",
    "Has one upload of each client; several of one client, or earlier rounds, would show more.",
    "Names the hypothesis nearest to the upload, or that of the cluster that k-means puts it into.",
]


def attack_cluster_membership(
    spec: ClusterMembershipSpec, attacked: AttackedRun, *, progress: Progress
) -> AttackOutcome:
    """Hypothesis membership by one upload of each training client. Raises ValueError for a
    mechanism other than `laplace-l2`."""
    cell, hypotheses = attacked.run.cell, attacked.result.hypotheses
    privacy = cell.spec.privacy
    if not isinstance(privacy, LaplaceL2):
        raise ValueError(f"{privacy.mechanism} has no noise multiplier nu")
    source = source_of(cell)
    clients = _clients(cell, source, n=hypotheses.shape[1])
    tried = spec.tried(privacy.noise_multiplier)
    seen: dict[float, _Uploads] = {}
    for place, nu in enumerate(tried):
        words = source.wide_words(purpose=Purpose.ATTACK, round_=4, counters=place, count=1)
        seed = int(words.reshape(-1)[0] >> np.uint64(11))
        noised = privacy.model_copy(update={"noise_multiplier": nu, "noise": "simulation"})
        training = cell.spec.training.of_one_round
        of_round = {"seed": seed, "training": training, "privacy": noised, "fairness": Fairness()}
        companion = replace(
            cell,
            federation=replace(cell.federation, attributes=()),
            spec=cell.spec.model_copy(update=of_round),
        )

        def report(done: float, place: int = place) -> None:
            progress((place + done) / len(tried))

        device = torch.device(attacked.device)
        seen[nu] = _play(companion, hypotheses, clients, device=device, progress=report)
    names = attacked.run.federation.client_names
    lines = (
        {
            "noise_multiplier": nu,
            "client": plain_text(names[one.client[place]]),
            "chosen": one.chosen[place],
            "nearest": one.nearest[place],
            "assigned": one.assigned[place],
        }
        for nu, one in seen.items()
        for place in range(len(one.client))
    )
    section = _section(attacked, privacy, seen)
    return AttackOutcome(section, {"uploads.csv": csv_table(lines)})


def _clients(cell: Cell, source: Source, *, n: int) -> Ints:
    """The training clients in a random order, a sample of them if their uploads are very long."""
    clients = training_records(cell.spec, cell.federation).clients
    words = source.wide_words(purpose=Purpose.ATTACK, round_=3, counters=clients, count=1)
    order = np.argsort(words[..., 0].reshape(-1), kind="stable")
    return clients[order[: max(1, min(MAX_CLIENTS, MAX_UPLOADED // n))]]


@dataclass(frozen=True, eq=False)
class _Uploads:
    """What the server received, and what it concluded; arrays [clients]."""

    client: Ints
    """Indices in the federation."""
    chosen: Ints
    """The hypothesis that the client started from. Confidential."""
    nearest: Ints
    """The hypothesis nearest to the upload."""
    assigned: Ints
    """The cluster that the server put it into."""
    radii: Floats
    """[clients, parts]: of the noise."""
    ratio: Floats
    """The distance of the upload to the hypothesis of its cluster, over that hypothesis's distance
    to the nearest other."""


def _play(
    cell: Cell, hypotheses: Floats32, clients: Ints, *, device: torch.device, progress: Progress
) -> _Uploads:
    """The uploads of the clients from the hypotheses [k, n], without those that are withheld."""
    size, parts = cell.spec.training.asked_clients or len(clients), list[_Uploads]()
    theta = torch.from_numpy(hypotheses)[None].to(device)
    engine, _ = build_engines([cell], split_cells([cell]), device)
    engine.arrange([0])
    for first in range(0, len(clients), size):
        own = np.sort(clients[first : first + size])
        allowed = np.ones((1, len(own)), dtype=np.bool_)
        rounds = np.array([[len(parts) + 1]])
        block = Block(rounds=rounds, cohort=own[None, None], drawn=None, validation=None)
        with torch.no_grad():
            engine.draw_noise(block)
            noise = None if block.noise is None else block.noise[0]
            cohort = Cohort(rounds=rounds[0], clients=own[None], allowed=allowed, noise=noise)
            [played] = engine.play(theta, [cohort], None, None)
            parts.append(_uploads(own, played, theta[0]))
        progress((first + len(own)) / len(clients))
    names = vars(parts[0])
    return _Uploads(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )


def _uploads(clients: Ints, played: RoundResult, theta: torch.Tensor) -> _Uploads:
    sent = played.sent
    if sent is None or sent.radii is None:
        raise ValueError("a round of clients that protect themselves has uploads with radii")
    present = sent.present[0].cpu().numpy()
    uploads = sent.uploads[0].double().cpu().numpy()[present]
    points = theta.double().cpu().numpy()
    distances = np.stack([np.linalg.norm(uploads - point, axis=1) for point in points], axis=1)
    between = np.stack([np.linalg.norm(points - point, axis=1) for point in points])
    np.fill_diagonal(between, np.inf)
    assigned = sent.assigned[0].cpu().numpy()[present]
    own = np.take_along_axis(distances, assigned[:, None], axis=1)[:, 0]
    with np.errstate(divide="ignore"):
        ratio = own / between.min(1)[assigned]
    radii = sent.radii[0].cpu().numpy()
    return _Uploads(
        client=clients[present],
        chosen=sent.chosen[0].cpu().numpy()[present],
        nearest=distances.argmin(1),
        assigned=assigned,
        radii=radii.reshape(len(radii), -1)[present],
        ratio=ratio,
    )


def _section(
    attacked: AttackedRun, privacy: LaplaceL2, seen: dict[float, _Uploads]
) -> ClusterMembershipSection:
    hypotheses, inputs = attacked.result.hypotheses, attacked.run.ledger.inputs
    by_part = part_distances(hypotheses, parts=inputs.noised_sizes)
    between = np.linalg.norm(by_part, axis=-1)
    np.fill_diagonal(between, np.inf)
    nearest = by_part[np.unravel_index(between.argmin(), between.shape)]
    rule = size_rule(attacked.run.spec.fairness)
    results = [
        _result(one, rule, nearest, replace(inputs, noise_multiplier=nu))
        for nu, one in seen.items()
    ]
    first = next(iter(seen.values()))
    clients, most = len(first.chosen), int(np.bincount(first.chosen, minlength=1).max())
    shown = clients and not rule.is_small(clients - most)
    chance = most / clients if shown else _NEAR_ALL
    return ClusterMembershipSection(
        status="done",
        reason=None,
        statement=_statement(privacy, results, chance=chance, clients=clients),
        capabilities=_CAPABILITIES,
        clients=clients,
        hypotheses=len(hypotheses),
        smallest_distance=float(between.min()),
        confidence=CONFIDENCE,
        results=results,
        **with_reasons({"chance": chance}),
    )


def _result(
    seen: _Uploads, rule: DisclosureRule, by_part: Floats, inputs: MechanismParameters
) -> ClusterMembershipResult:
    """The result at the noise of `inputs`; `by_part`: between the two nearest hypotheses."""
    figures = pair_figures(by_part, rates_of(inputs, radii=seen.radii), clip=None)
    exponents = {
        "exponent_median": figures["indistinguishability_median"],
        "exponent_max": figures["indistinguishability"],
    }
    separation: float | str = _NOTHING_SENT
    if len(seen.ratio):
        median = float(np.median(seen.ratio))
        separation = median if np.isfinite(median) else _SAME
    assert inputs.noise_multiplier is not None
    return ClusterMembershipResult(
        noise_multiplier=inputs.noise_multiplier,
        nearest=_named(seen.nearest == seen.chosen, rule),
        assigned=_named(seen.assigned == seen.chosen, rule),
        **with_reasons({**or_why(exponents, _NO_EXPONENT), "separation": separation}),
    )


def _named(correct: Bools, rule: DisclosureRule) -> NamedShare:
    if not rule.is_large(len(correct)):
        return NamedShare(reason=rule.few("uploads"))
    interval = clopper_pearson(int(correct.sum()), len(correct), confidence=CONFIDENCE)
    return NamedShare(value=float(correct.mean()), interval=interval)


def _statement(
    privacy: LaplaceL2, results: list[ClusterMembershipResult], *, chance: float | str, clients: int
) -> str:
    sentences = [
        f"{clients} training clients uploaded once more from the trained hypotheses, in a round "
        "beside the run, and the server named the hypothesis that each had started from."
    ]
    for result in results:
        named = result.nearest
        if named.value is not None and named.interval is not None:
            run = ", the run's" if result.noise_multiplier == privacy.noise_multiplier else ""
            sentences.append(
                f"At nu = {result.noise_multiplier:g}{run}, it was right for {named.value:.1%} "
                f"({named.interval.low:.1%} to {named.interval.high:.1%})."
            )
    sentences.append(
        "How often naming the most frequent hypothesis every time is right is suppressed, since "
        "few clients chose otherwise."
        if isinstance(chance, str)
        else f"Naming the most frequent hypothesis every time is right for {chance:.1%}."
    )
    sentences += [
        "The choice of a hypothesis has no noise; the exponent beside each figure bounds how much "
        "likelier an upload can be under one of the two nearest hypotheses than under the other, "
        "for the same update.",
        "A server that knows more of its clients may do better, so a figure near chance is no "
        "guarantee.",
        "The round used the spec's mechanism and code with fresh noise, never the noise that the "
        "run drew; it changed no figure of the run and was charged to no budget.",
    ]
    if privacy.noise == "release":
        sentences.append(
            "These figures follow from the clients' choices, and no guarantee covers them: keep "
            "them confidential."
        )
    return " ".join(sentences)
