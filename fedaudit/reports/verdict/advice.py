"""What to change next if a model is of no use or costs too much, by its cause: in words, and as
changes of the spec, which a person or a program may adopt.

Figures of the report alone distinguish causes. A model has a constant term, so one whose loss is
above the best constant's was not trained well: a loss above that of the start means steps that are
too long, otherwise they are too short. Noise is the cause where its sum over all rounds is longer
than that of the updates, and none only where what it may add to the loss is far below the gap to
the constant. Then changes that cost no more come first, and less noise last, never beyond what
still protects.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.fairness.disclosure import TOO_FEW
from fedaudit.federations.split import validation_clients
from fedaudit.number_text import at_most
from fedaudit.privacy.guarantees.cost_sentences import GOAL, MOST
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import DROWNED, LONGEST_UPDATE, enough
from fedaudit.reports.sections.outcome_words import positive_in_words
from fedaudit.reports.sections.part import Advice
from fedaudit.reports.sections.ranking import another_threshold
from fedaudit.reports.sections.utility import known_ending, why_not_useful
from fedaudit.reports.verdict.advised_run import STILL, AdvisedRun, listed
from fedaudit.reports.verdict.cost import Bound
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted
from fedaudit.spec.privacy import GaussianCentral, LaplaceL2, NoMechanism, RecordPersonalised
from fedaudit.spec.table import Table
from fedaudit.spec.training import FixedCohort
from fedaudit.utility import MIN_CLIENTS, OF_OUTCOME

PROPOSAL = "`fedaudit propose` drafts a whole experiment for a cost that is asked for."
_REACH = 3.0
"""How far all rounds together have to be able to go, at least, where features are of order 1."""
_FAR = 10 * _REACH
_ONCE_MORE = 10.0
"""How far all rounds may go for twice as many to be worth trying."""
_WORTH_TRYING = 2.0
"""Times DROWNED: a run near the rule's edge may learn."""
_ENOUGH = 0.7
_STILL_FALLING = "the loss was still falling in the last rounds"
_LATE = 0.9
"""Share of the rounds: a best round after it shows that training had not ended."""
_LEARNT = 0.05
"""Share of the constant's loss: a model that saves more has learnt something."""
_HALF, _MOST_HELD_OUT = 0.5, 0.4
"""Shares of the clients or rows: half of them are hardly more than the second."""
_LONG, _LONG_OF_ORDER_1 = 100.0, 3.0
"""Multiples of the clip: longer updates are of no use. The second is for features of order 1, as
the expected length of an update assumes; the first for others."""
_SHORTER = 3.0
"""By how much steps change that are not certainly wrong: ten would go past what is right."""
_PERHAPS = 0.3
"""Times DROWNED: noise that may be the cause where nothing else is."""


def _round_number(value: float) -> float:
    """The largest of 1, 2 and 5 times powers of ten that is not above the value."""
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return float(f"{max(one for one in (1, 2, 5) if one * power <= value * (1 + 1e-9)) * power:g}")


def _about(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


def better_model(report: Mapping[str, Any]) -> Advice:
    """Advice for a run whose model is no better than a constant, or is not shown to be."""
    run = AdvisedRun(report, parse_admitted(report["spec"]))
    why = run.utility["reasons"].get("validation_loss", "")
    if why.startswith(TOO_FEW):
        more = "more rows" if run.spec.federation.holds_out_rows else "more clients"
        return Advice(
            text=f"Whether the model is useful is unknown, since {why}: hold out {more} "
            "(`federation.validation_fraction`)."
        )
    if run.ratio >= DROWNED:
        return _against_noise(run)
    causes = [_too_far, _too_long, _not_moved, _still_falling, _worse_than_constant]
    learnt = run.gain is not None and run.gain > _LEARNT * run.utility["baseline_loss"]
    # First where steps that are long enough brought it closer than a constant.
    at = 0 if learnt and run.reach >= _REACH else len(causes)
    causes[at:at] = [_by_outcome, _too_few]
    for cause in causes:
        if (found := cause(run)) is not None:
            return found
    return _against_noise(run) if run.ratio >= _PERHAPS * DROWNED else _no_setting(run)


def longer_training(report: Mapping[str, Any]) -> Advice | None:
    """Advice for a useful model that was still getting better."""
    run = AdvisedRun(report, parse_admitted(report["spec"]))
    last = run.utility["best_round"] == run.utility["rounds"]
    return _more_rounds(run, _STILL_FALLING) if last and _falls(run) else None


def better_threshold(report: Mapping[str, Any]) -> Advice:
    """Advice for a model that ranks people and gives nearly all of them one answer."""
    declare = another_threshold(field="decision.threshold", outcome=positive_in_words(report))
    return Advice(
        text=f"{declare}. A run with it costs what this one cost; `fedaudit audit` with `--score` "
        "and `--threshold` judges scores that the model gave at any threshold without training.",
        figure="utility/balanced_accuracy",
    )


def _advice(run: AdvisedRun, text: str, changes: Mapping[str, Any]) -> Advice:
    loss = run.utility["validation_loss"] is not None
    return Advice(
        text=text,
        figure="utility/validation_loss" if loss else "utility/accuracy_over_baseline",
        changes=listed(changes),
    )


def _step(run: AdvisedRun, step_size: float, why: str) -> Advice:
    step_size = _round_number(step_size)
    draft = " (or with all that `fedaudit propose` drafts)" * run.has_noise
    text = f"train with a step_size of {step_size:g} in place of {run.step_size:g}{draft}"
    return _free(run, f"{why}: {text}", {"/training/local/step_size": step_size})


def _free(run: AdvisedRun, text: str, changes: Mapping[str, Any]) -> Advice:
    """Something of which noise is not the only cause, with a run that costs no more than this."""
    if run.has_noise and not run.noise_may_matter:
        text = f"Noise is not the cause, {text}"
    elif run.has_noise and run.gap is not None:
        text = f"{_may_add(run)} and be a cause too; {text}"
    return _advice(run, f"{text[0].upper()}{text[1:]}{_again(run)}.", changes)


def _may_add(run: AdvisedRun) -> str:
    return f"Noise may add about {_about(run.noise_loss)} to the loss"


def _again(run: AdvisedRun) -> str:
    return ", which costs what this run cost, again" if run.has_noise else ""


def _too_far(run: AdvisedRun) -> Advice | None:
    """A number that is predicted and is so far from 0, once scaled, that clipped updates do not
    reach it."""
    constant, source = run.utility.get("baseline_loss"), run.spec.federation
    squared = run.spec.training.loss == "mse"
    if not (isinstance(source, Table) and squared) or None in (run.start, constant):
        return None
    far = math.sqrt(max(0.0, run.start - constant))
    if run.clip is None or far < run.reach or (run.gain or 0.0) > 0:
        return None
    declared = f"federation.scale: {{{source.target}: {{mean: ..., deviation: ...}}}}"
    return Advice(
        text=f"All rounds together go {_about(run.reach)}, and {source.target} is, as scaled, "
        f"about {_about(far)} from where they start: register the table with a number near its "
        "middle and how far from it values usually are, by what is publicly known, as "
        f"`{declared}`; or its logarithm, where few values are far above the others."
    )


def _above_start(run: AdvisedRun) -> bool:
    return None not in (run.start, run.best) and bool(run.best > run.start * (1 + STILL))


def _too_long(run: AdvisedRun) -> Advice | None:
    diverged = known_ending(run.utility["stopped_by"]) == "diverged"
    why = "training diverged" if diverged else "no round was better than the start"
    shorter = run.step_size / 10
    if not (diverged or _above_start(run)):
        learns = run.gain is None or run.gain > 0 or run.utility.get("ranks_above_chance")
        if run.clip is not None or learns or _falls(run) or not run.noise_may_matter:
            return None
        shorter, why = run.step_size / _SHORTER, "noise grows with them"
    if run.clip is None:
        after = run.changed({"/training/local/step_size": _round_number(shorter)})
        if not diverged and (after is None or after.reach < _REACH):
            return None
        return _step(run, shorter, f"the steps are too long, {why}")
    if run.reach < _FAR:
        return None
    said, changes = _within_reach(run)
    return _free(run, f"updates are too long, {why}: train with {said}", changes)


def _not_moved(run: AdvisedRun) -> Advice | None:
    """Steps that are long enough for features of order 1, and a loss that stayed where it was."""
    still = None not in (run.start, run.best) and abs(run.start - run.best) <= STILL * run.start
    if run.reach < _REACH or not still:
        return None
    return _one_scale(run, "training did not move the loss") or _no_setting(run)


def _one_scale(run: AdvisedRun, why: str) -> Advice | None:
    changes = {"/federation/standardise": "client"}
    source = run.spec.federation
    if not isinstance(source, Table) or source.standardise or run.changed(changes) is None:
        return None
    return _free(run, f"{why}: bring features to one scale by `standardise: client`", changes)


def _falls(run: AdvisedRun) -> bool:
    late = run.utility["best_round"] >= _LATE * run.utility["rounds"]
    return late and run.best is not None  # otherwise no loss chose the best round


def _still_falling(run: AdvisedRun) -> Advice | None:
    if not _falls(run):
        return None
    return _longer_steps(run, _STILL_FALLING) or _more_rounds(run, _STILL_FALLING)


def _more_rounds(run: AdvisedRun, why: str) -> Advice | None:
    """Twice as many rounds at the same cost, where training as a whole has not gone far and clients
    do not pay for each round that they take part in."""
    alike = isinstance(run.spec.privacy, NoMechanism | GaussianCentral | RecordPersonalised)
    if not alike or run.reach > _ONCE_MORE:
        return None
    changes: dict[str, Any] = {"/training/rounds": 2 * run.spec.training.rounds}
    said, after = f"{changes['/training/rounds']} rounds", run.changed(changes)
    if after is not None and isinstance(run.spec.privacy, GaussianCentral):
        noise = _needed_noise(after, run.cost or 0.0, "epsilon")
        changes["/privacy/noise_multiplier"] = noise
        said, after = f"{said} and a noise_multiplier of {noise}", run.changed(changes)
    if after is None or after.ratio >= _PERHAPS * DROWNED or run.drowned_by(after):
        return None
    if after.noise_may_matter and not run.noise_may_matter:  # it would eat up what they bring
        return None
    return _advice(run, f"{why[0].upper()}{why[1:]}: train with {said}{_again(run)}.", changes)


def _worse_than_constant(run: AdvisedRun) -> Advice | None:
    """A model with a constant term that training did not bring as far as a constant, or would not
    if its losses were known."""
    short = run.reach < _REACH and (run.has_noise or run.gain is None)
    worse = run.gain is not None and run.gain < -STILL * run.utility["baseline_loss"]
    if not (short or worse):
        return None
    why = "all rounds together move the model too little"
    if worse:
        why = "training did not come as far as a constant"
    if found := _one_scale(run, why):
        return found
    if run.utility.get("ranks_above_chance") is False and run.reach >= _REACH:
        return None
    return _longer_steps(run, why)


def _longer_steps(run: AdvisedRun, why: str) -> Advice | None:
    of_order_1 = bool(getattr(run.spec.federation, "standardise", None))
    longest = (_LONG_OF_ORDER_1 if of_order_1 else _LONG) * (run.clip or math.inf)
    if run.length >= longest:
        return None
    if run.clip is None and run.length >= LONGEST_UPDATE:
        return _step(run, run.step_size / _SHORTER, f"the steps are too long, {why}")
    # A step that was too long stays shorter than it was, as what is divided is rounded down.
    times = 2 * _REACH / run.reach if run.reach < _REACH else _SHORTER
    times = min(times, longest / run.length)
    if of_order_1 and run.spec.training.loss == "mse":
        # Steps beyond the curvature, twice the length of rows, diverge.
        times = min(times, 0.5 / run.parameters / run.step_size)
    if _round_number(run.step_size * times) <= run.step_size:
        return None
    after = run.changed({"/training/local/step_size": _round_number(run.step_size * times)})
    if run.reach >= _REACH and (_above_start(run) or after is None or run.drowned_by(after)):
        return None
    return _step(run, run.step_size * times, f"the steps are too short, {why}")


def _by_outcome(run: AdvisedRun) -> Advice | None:
    """Where the model is better than a constant, and not in what groups are compared by."""
    if OF_OUTCOME not in (why_not_useful(run.report) or ""):
        return None
    return Advice(
        text="The model predicts the target better than a constant, and is not shown to predict "
        "better whether it is favourable: if other values of it are, name them in "
        "`fairness.favourable`; otherwise other features or more clients are needed."
    )


def _seeming_gain(run: AdvisedRun) -> tuple[float, float | None]:
    """How much better the model seems without being shown to be, otherwise 0; and how many times as
    many held-out rows would show it, where that is known."""
    utility = run.utility
    weighted = utility.get("weighted_accuracy_over_baseline")
    gain = utility.get("accuracy_over_baseline") if weighted is None else weighted
    interval = utility.get("accuracy_over_baseline_interval") if weighted is None else None
    low = 0.0 if interval is None else interval["low"]
    worse = run.gain is not None and run.gain <= 0
    if worse or utility["degenerate"] is not None or gain is None or gain <= 0 or low > 0:
        return 0.0, None
    # An interval is about as long as one over the root of the rows.
    return gain, None if interval is None else (1 - low / gain) ** 2


def _too_few(run: AdvisedRun) -> Advice | None:
    """Where the model seems better, and other held-out clients or rows may show it."""
    share, cohort = run.spec.federation.validation_fraction, run.spec.training.cohort
    clients, held_out = (run.report["data"][f"{name}clients"] for name in ("", "validation_"))
    gain, times = _seeming_gain(run)
    if not gain:
        return None
    changes: dict[str, Any] = {"/federation/validation_fraction": _HALF}
    if share <= _MOST_HELD_OUT and _needs_rows(run):
        return None
    if run.spec.federation.holds_out_rows:
        if share > _MOST_HELD_OUT or (times or 1.0) * share > _HALF:
            return None
        said = f"half of the rows of each client in place of {share:.0%}"
    elif share > _MOST_HELD_OUT or clients < 2 * MIN_CLIENTS:
        said = "rows of every client (`federation.validation_unit: record`)"
        changes = {"/federation/validation_unit": "record"}
    else:
        said = f"half of the clients in place of {held_out}"
        left = clients - validation_clients(clients, validation_fraction=_HALF)
        if isinstance(cohort, FixedCohort) and cohort.clients > left:
            changes["/training/cohort/clients"] = left
    if run.changed(changes) is None:
        return None
    text = f"The model seems better than a constant: hold out {said}, to show it{_again(run)}."
    figure = "utility/accuracy_over_baseline_interval" if times is not None else None
    return Advice(text=text, figure=figure, changes=listed(changes))


def _needs_rows(run: AdvisedRun) -> bool:
    """Whether training on the rows that are left, were half held out, may lose a quarter of what
    was gained: few rows add n / 2N to the loss, beside noise."""
    share = run.spec.federation.validation_fraction
    fewer = (1 - share) / (1 - _HALF)
    of_rows = run.parameters / (2 * (1 - share) * run.report["data"]["rows"])
    lost = of_rows * (fewer - 1) + run.noise_loss * (fewer**2 - 1)
    return run.gain is not None and lost > run.gain / 4


def _no_setting(run: AdvisedRun) -> Advice:
    short = "Noise is short beside the updates, and training" if run.has_noise else "Training"
    other = "Other"
    if run.noise_may_matter and run.gap is not None:
        short, other = f"{_may_add(run)}, and training", "Less noise, other"
    gain, times = _seeming_gain(run)
    if gain and run.spec.federation.validation_fraction <= _MOST_HELD_OUT and _needs_rows(run):
        return Advice(
            text="The model seems better than a constant, and the rows are too few to tell: "
            "training needs those that it has, longer training would not show it, and more rows or "
            "clients are needed."
        )
    more = "" if times is None else f"about {_about(times)} times as many held-out rows, "
    scaled = getattr(run.spec.federation, "standardise", None) is not None
    scale = "" if scaled else "features of one scale (by public constants in `federation.scale`), "
    return Advice(
        text=f"{short} has ended: longer training would not make the model useful. {other} "
        f"features, {scale}another model, {more}or more clients are needed."
    )


def _free_moves(run: AdvisedRun) -> Iterator[tuple[str, dict[str, Any]]]:
    """What makes noise shorter beside the updates and costs nothing, the simplest first."""
    training = run.spec.training
    if training.hypotheses > 1:
        yield "one hypothesis, for which all updates are averaged", {"/training/hypotheses": 1}
    if run.clip is not None and run.length < run.clip / 2:
        yield _within_reach(run)
    # Elsewhere a client pays for each round that it takes part in.
    everyone_pays = isinstance(run.spec.privacy, NoMechanism | GaussianCentral)
    drawn = training.cohort.clients if isinstance(training.cohort, FixedCohort) else run.clients
    if everyone_pays and drawn < run.clients:
        yield "all training clients in each round", {"/training/cohort/clients": run.clients}


def _within_reach(run: AdvisedRun) -> tuple[str, dict[str, Any]]:
    """Steps that use the whole clip; for noise that scales with it, also a clip with which all
    rounds together go as far as needed."""
    clip, changes = run.clip or math.inf, dict[str, Any]()
    if not isinstance(run.spec.privacy, LaplaceL2):
        enough = _round_number(2 * _REACH / run.spec.training.rounds)
        if enough < clip:
            clip = changes["/privacy/clip"] = enough
    step_size = _round_number(run.step_size * clip / run.length)
    if step_size != run.step_size:
        changes["/training/local/step_size"] = step_size
    words = {"/privacy/clip": "a clip of", "/training/local/step_size": "a step_size of"}
    return " and ".join(f"{words[path]} {value:g}" for path, value in changes.items()), changes


def _against_noise(run: AdvisedRun) -> Advice:
    words: list[str] = []
    changes: dict[str, Any] = {}
    now = run
    for said, move in _free_moves(run):
        after = now.changed(move)
        if after is None or after.ratio >= now.ratio or (after.cost or 0) > (now.cost or 0) * 1.001:
            continue
        now, words, changes = after, [*words, said], {**changes, **move}
        if now.ratio < DROWNED:
            break
    long = f"Noise is about {_about(run.ratio)} times as long as all updates together"
    if now.ratio < _WORTH_TRYING * DROWNED and changes:
        said = f"{long}: train with {', '.join(words)}; that costs what this run cost, again."
        return _advice(run, said, changes)
    if found := _for_less_noise(now, long, words, changes):
        return found
    if now.ratio < DROWNED:
        return _no_setting(run)
    central = isinstance(run.spec.privacy, GaussianCentral)
    times = now.ratio / DROWNED if central else (now.ratio / DROWNED) ** 2
    constant = run.utility.get("baseline_accuracy")
    expected = "" if constant is None else f" (accuracy {constant:.3g})"
    also = f"with {', '.join(words)}, " if words else ""
    return Advice(
        text=f"{long}. No setting of this run helps at a cost that protects: {also}about "
        f"{_about(max(2, math.ceil(times)))} times as many clients, or fewer parameters than "
        f"{run.parameters}, would be needed. Otherwise expect a model no better than a constant"
        f"{expected}. {PROPOSAL}"
    )


def _for_less_noise(
    now: AdvisedRun, long: str, words: list[str], changes: dict[str, Any]
) -> Advice | None:
    if isinstance(now.spec.privacy, RecordPersonalised):
        return _larger_epsilon(now, now.spec.privacy, long)
    noise = getattr(now.spec.privacy, "noise_multiplier", None)
    if noise is None or now.cost is None or now.cost > MOST:
        return None
    less = float(f"{noise * _ENOUGH * min(1.0, DROWNED / now.ratio):.2g}")
    moved = _noise(now, less)
    after = now.changed(moved)
    if after is None or not after.cost or after.cost > MOST:
        return None
    also = f"{', '.join(words)}, and " if words else ""
    text = (
        f"{long}: train with {also}a noise_multiplier of {less:g} in place of {noise:g}"
        f"{_room(moved)}. That costs {at_most(after.cost, digits=3)} in the worst case in place of "
        f"{at_most(now.cost, digits=3)}; expect a model that is little better than a constant."
    )
    return _advice(now, text, {**changes, **moved})


def _larger_epsilon(now: AdvisedRun, privacy: RecordPersonalised, long: str) -> Advice | None:
    most, fields = privacy.epsilon_max, ["/privacy/epsilon_max", "/privacy/epsilon_min"]
    fields = fields[: 2 if privacy.epsilon_min == most else 1]

    def ratio(epsilon: float) -> float:
        after = now.changed(dict.fromkeys(fields, epsilon))
        return math.inf if after is None else after.ratio

    needed = enough(ratio)
    if needed is None or not most < needed <= MOST:
        return None
    text = (
        f"{long}: train with an epsilon of {needed:g} in place of {most:g}; expect a model that is "
        "little better than a constant."
    )
    return _advice(now, text, dict.fromkeys(fields, needed))


def _noise(run: AdvisedRun, noise_multiplier: float) -> dict[str, Any]:
    """A noise multiplier, in place of a target if the spec has one. It changes what a release
    costs, so a client's budget follows: as many participations as now, each n / nu."""
    found: dict[str, Any] = {"/privacy/noise_multiplier": noise_multiplier}
    if getattr(run.spec.privacy, "target", None) is not None:
        found["/privacy/target"] = None
    if isinstance(run.spec.privacy, LaplaceL2):
        allowed = mechanism_of(run.spec).participation_cap(n=run.parameters)
        if allowed:
            budget = allowed * run.parameters / noise_multiplier
            found["/privacy/client_budget"] = math.ceil(budget * 1e3) / 1e3
    return found


def _room(changes: Mapping[str, Any]) -> str:
    budget = changes.get("/privacy/client_budget")
    return f", and a client_budget of {budget:g}" if budget else ""


def smaller_cost(report: Mapping[str, Any], *, goal: float = GOAL, figure: str = "") -> Advice:
    """Advice for a run whose bound is too large to protect, or fails a gate: enough noise for the
    worst case, and what to expect of it. `goal`: for the `figure`, or whichever bounds it."""
    run = AdvisedRun(report, parse_admitted(report["spec"]))
    # Of one run: several seeds cost more.
    name = figure or Bound(report).figure or "epsilon_max"
    needed = None if report.get("repeats") else _needed_noise(run, goal, name)
    known = report["privacy"].get("noise_multiplier")
    if needed is None or known is None:
        return Advice(
            text=(
                f"For a bound of at most {goal:g}, train with more noise, fewer rounds "
                f"{'or seeds, ' if report.get('repeats') else ''}or a smaller sampling rate. "
                f"{PROPOSAL}"
            )
        )
    changes = _noise(run, needed)
    after = run.changed(changes)
    expected = "expect a worse model"
    if after is not None and after.ratio >= DROWNED:
        constant = report["utility"].get("baseline_accuracy")
        level = "" if constant is None else f" (accuracy {constant:.3g})"
        expected = f"expect a model hardly better than a constant{level}"
    text = (
        f"For a bound of at most {goal:g} in the worst case, of a client drawn in every round, "
        f"train with a noise_multiplier of {needed:,g} instead of {known:g}{_room(changes)}, and "
        f"{expected}. {PROPOSAL}"
    )
    return Advice(text=text, figure=f"privacy/{name}", changes=listed(changes))


def _needed_noise(run: AdvisedRun, goal: float, name: str) -> float | None:
    mechanism = mechanism_of(run.spec)
    noise: float | None = getattr(run.spec.privacy, "noise_multiplier", None)
    if name in ("leakage_max", "log_ratio_max"):
        # Both are inversely proportional to the noise, for as many participations.
        projected = mechanism.project_cost(
            n=run.parameters, training_clients=run.clients, layers=(run.parameters,)
        )
        most: float | None = getattr(projected, name.replace("max", "worst_case"))
        return math.ceil(noise * most / goal * 100) / 100 if most and noise else None
    targeted = mechanism.targeted_figure(n=run.parameters, training_clients=run.clients)
    if targeted is None or not name.startswith(targeted.name):
        return None
    try:
        return targeted.least_noise(goal)
    except InvalidInputError:
        return None
