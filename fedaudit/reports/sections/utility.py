"""The section `utility`: how well the model predicts, beside a constant prediction."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, assert_never, get_args

from fedaudit.arrays import Floats, Ints, finite
from fedaudit.fairness.gaps import NO_ACCURACY
from fedaudit.fairness.intervals import GAIN_METHOD, Interval
from fedaudit.fairness.noised_counts import METHOD, ExactCounts, NoisedCounts, Rounder
from fedaudit.number_text import digit_step, nearest, outward, step_of, without_dust
from fedaudit.reports.checks import Check, shown, value_at
from fedaudit.reports.sections.fairness import (
    FROM_NOISE,
    WITHHELD,
    NoisedGain,
    interval_section,
    noised_gain,
)
from fedaudit.reports.sections.material import ReportMaterial, RunEvidence, ScoredMaterial
from fedaudit.reports.sections.part import (
    WHERE_GIVEN,
    IntervalSection,
    Part,
    Section,
    Share,
    Shown,
    or_why,
    with_reasons,
)
from fedaudit.reports.sections.ranking import DECIDED, RankingFigures, ranking_figures
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart
from fedaudit.spec.table import Table
from fedaudit.spec.training import Ditto, FineTuning, Hypotheses, LocalOnly, QFfl, StoppedBy
from fedaudit.utility import (
    MIN_CLIENTS,
    NO_INTERVALS,
    OF_OUTCOME,
    ConstantComparison,
    Judgement,
    gain_interval,
    judge_comparison,
    over_constant,
)

SENTENCES: dict[StoppedBy, str] = {
    "rounds": "Training ended with round {rounds}, the last one",
    "patience": "Training ended with round {rounds}, when its patience ran out",
    "budget": (
        "Training ended with round {rounds}: the next would have passed privacy.epsilon_budget"
    ),
    "audit": (
        "Training ended with round {rounds}, in which canaries beside it proved its noise too small"
    ),
    "diverged": "Training diverged in round {rounds}",
}
ENDING_WORDS: dict[StoppedBy, str] = {
    "rounds": "all rounds done",
    "patience": "patience ran out",
    "budget": "the epsilon budget",
    "audit": "canaries proved the noise too small",
    "diverged": "divergence",
}


def known_ending(name: object) -> StoppedBy | None:
    """The ending of that name. None of any other: a document may come from anywhere."""
    endings: tuple[StoppedBy, ...] = get_args(StoppedBy)
    return next((ending for ending in endings if ending == name), None)


def chosen_by_losses(stopped_by: StoppedBy | None) -> bool:
    """Whether losses on held-out rows, without noise, ended the run before its last round. Then
    only the epsilon of all planned rounds is proven. False for None, an ending that this version
    does not know."""
    match stopped_by:
        case "patience" | "diverged":
            return True
        # An audit uses its own coins and noise, and what clients sent is subtracted before.
        case "rounds" | "budget" | "audit" | None:
            return False
        case _:
            assert_never(stopped_by)


def why_not_useful(report: Mapping[str, Any]) -> str | None:
    """Why the model is degenerate, or not shown to be better than a constant; None where it is
    shown to be better."""
    utility = report["utility"]
    if utility["degenerate"] is False:
        return None
    found: str | None = utility["reasons"].get("degenerate")
    return found or "the report does not say whether the model is better than a constant prediction"


def not_shown_words(report: Mapping[str, Any]) -> str:
    """What a model that may be useless is not shown to do."""
    if OF_OUTCOME in (why_not_useful(report) or ""):
        return "not shown to predict what is favourable"
    return "not shown to be better than a constant"


def personal_method(report: Mapping[str, Any]) -> str | None:
    """The method by which all figures of predictions are of models that stay with clients, while
    the common model, which may leave, was not measured; None by others."""
    method = report["utility"].get("method") or {"personalised": None}
    kind: str | None = method.get("kind")
    return None if method["personalised"] is None or method["sent"] is None else kind


class MethodSection(Part):
    """How clients were trained for, where it was not by hypotheses alone."""

    kind: str
    personalised: str | None
    """The kind of models that held-out clients made, in words; None where they made none."""
    sent: str | None
    """What left a client that trained, in words; None where nothing did."""
    of_common_model: Annotated[bool | None, WHERE_GIVEN] = None
    """Whether the figures are of the common model, which may leave; absent where training makes
    none."""


class Measured(Part):
    """How well the best hypotheses predict held-out clients, beside a constant prediction.

    The constant is fitted to the same rows, for each hypothesis to those that it predicts: always
    their most frequent class, or the number with the smallest loss. Where clients make models of
    their own, it is fitted for each of them.
    """

    method: Annotated[MethodSection | None, WHERE_GIVEN] = None
    """Absent for the method `hypotheses`."""

    validation_loss: Annotated[float | None, Shown("Validation loss", beside="baseline_loss")]
    selection_loss: Annotated[float | None, Shown("Selection loss (for stopping only)")]
    """The smallest loss over hypotheses. It decides when to stop, and is optimistic as a measure of
    quality."""
    accuracy: Annotated[float | None, Shown("Accuracy", beside="baseline_accuracy")]
    baseline: Literal["majority", "mean", "number"] | None = None
    """What the constant prediction is."""
    baseline_accuracy: Share | None = None
    """Its accuracy: the share of the most frequent class."""
    baseline_loss: float | None = None
    """Its validation loss; for classes that of their frequencies as probabilities."""
    accuracy_over_baseline: Annotated[
        float | None, Shown("Accuracy above that of a constant", where_given=True)
    ] = None
    """Accuracy less that of the constant: at or below 0 the model decides no better."""
    accuracy_over_baseline_interval: IntervalSection | None = None
    loss_under_baseline: float | None = None
    """The constant's validation loss less the model's."""
    loss_under_baseline_interval: IntervalSection | None = None


class Utility(RankingFigures, Measured):
    """The section; fields of `Measured` come first."""

    prediction_share: Annotated[
        Share | None, Shown("Share of rows with the most frequent prediction", where_given=True)
    ] = None
    """Share of rows for which the model predicts the most frequent outcome of their hypothesis:
    favourable or not where the spec defines it, otherwise the class."""
    prediction_share_interval: IntervalSection | None = None
    outcome_share: Share | None = None
    degenerate: bool | None = None
    """Whether the model decides nothing: it is no better than the constant, or predicts one outcome
    for nearly all rows. None where it is not shown to be better."""
    too_good: bool | None = None
    """Whether it predicts so well that the features probably contain the outcome, and the spec does
    not rule that out by `federation.leak_reviewed`. None where that is unknown."""
    start_loss: float | None = None
    """The selection loss of the hypotheses that training started from."""
    improved: bool | None = None
    """Whether the best hypotheses have a smaller selection loss than those."""
    rounds: Annotated[int, Shown("Rounds")]
    best_round: Annotated[int, Shown("Best round")]
    collapsed_rounds: Annotated[
        int | None, Shown("Rounds that trained one hypothesis of several", where_given=True)
    ] = None
    """Rounds whose uploads all fell into one of several clusters, so that one hypothesis alone was
    trained. None where there is one hypothesis."""
    stopped_by: StoppedBy
    reasons: dict[str, str]


_TUNED = (
    "each held-out client made its own model by {steps} steps of {words} from "
    "{start}, on rows of it that are not scored, and every figure of held-out rows is of "
    "these models, which stay with the clients"
)
_AS_WITHOUT = "updates, as without models of the clients' own, and protected alike"
_LOCAL_DATA = (
    "No client that trains was computed: the models of those would stay with them, and no one here "
    "is scored by one."
)
_ROWS_OF_TUNING = (
    "Held-out clients make their models from rows that are in no count. These rows move the "
    "predictions that are counted, without noise; suppression and rounding consider the scored "
    "rows alone."
)
_COMMON_MODEL = (
    "Figures of predictions and gaps are of models that stay with clients; the common model, which "
    "may leave, was not measured."
)
_WEIGHTS = (
    "With q-ffl the server can work out each client's loss of a round from what the client sends: "
    "the weighted update and a number made of both."
)


def method_section(spec: ExperimentSpec) -> MethodSection | None:
    """The section; None for `hypotheses`, of which the rest of the report speaks."""
    method = spec.training.method
    match method:
        case Hypotheses():
            return None
        case QFfl():
            sent = (
                f"updates weighted by the loss to the power of {method.q:g}, and a number made of "
                "both"
            )
            return MethodSection(
                kind=method.kind, personalised=None, sent=sent, of_common_model=True
            )
        case FineTuning():
            start = "the hypothesis that fits these rows best"
            if spec.training.hypotheses == 1:
                start = "the common model"
        case Ditto():
            start = f"the common model, pulled back to it by lambda = {method.proximal:g}"
        case LocalOnly():
            start = "the start"
        case _:
            assert_never(method)
    words, shares = spec.training.local.words, not isinstance(method, LocalOnly)
    return MethodSection(
        kind=method.kind,
        personalised=_TUNED.format(steps=method.steps, words=words, start=start),
        sent=_AS_WITHOUT if shares else None,
        of_common_model=False if shares else None,
    )


def method_limits(spec: ExperimentSpec) -> list[str]:
    """What the method keeps a report from showing."""
    method, protects_held_out = spec.training.method, spec.fairness.noise is not None
    found = [_ROWS_OF_TUNING] if method.personalises and not protects_held_out else []
    match method:
        case Hypotheses():
            return found
        case FineTuning() | Ditto():
            return [*found, _COMMON_MODEL]
        case QFfl():
            return [_WEIGHTS]
        case LocalOnly():
            return found if spec.federation.holds_out_rows else [*found, _LOCAL_DATA]
        case _:
            assert_never(method)


_MEASURED = ("validation_loss", "selection_loss", "accuracy", "start_loss")
_GAINS = ("accuracy_over_baseline", "loss_under_baseline")
_SHARES = ("prediction_share", "outcome_share")
_COMPARED = ("baseline", "baseline_accuracy", "baseline_loss", *_GAINS, *_SHARES)
_INTERVALS = tuple(f"{name}_interval" for name in _GAINS)
_NOISED = ("accuracy_over_baseline", *_SHARES)
_NOISED_INTERVALS = ("accuracy_over_baseline_interval", "prediction_share_interval")
_NOT_FINITE = "there was no finite loss to report"
_NO_OUTCOME = "the target is a number and no outcome was declared favourable"
_NOT_BY_HYPOTHESIS = (
    "counts with noise do not say which hypothesis, or whose model, predicted a row, so a model of "
    "one constant for each looks like any other"
)
_NOT_WEIGHTED = (
    "counts with noise are compared with a constant at the threshold 0.5 alone, where both errors "
    "are as bad"
)
_ONE_CONSTANT = (
    f"{FROM_NOISE}; beside one constant for all hypotheses or models: with one for each, a "
    "gain is at most this and a share at least this"
)
_NOT_LEARNT = (
    "no round was better than the start, so the best of them was picked by chance on the rows that "
    "it is scored on"
)
_NOT_CHOSEN = "the last round that was validated: no loss of held-out people chose one"
_ONE_HYPOTHESIS = "one hypothesis is trained in every round"
_TOO_GOOD, _LEFT = 0.99, 0.02
"""An accuracy or an AUC, and for regressions a share of the constant's squared loss, that real data
rarely allow."""
_STILL = 1e-12
"""Share of the loss at the start: a smaller difference is rounding."""


def utility_section(material: ScoredMaterial) -> Utility:
    """The section, from exact or rounded counts, or from counts with noise alone."""
    published, compared, result = material.published, _compared(material), material.result
    gain, notes = None, dict[str, str]()
    match published:
        case NoisedCounts():
            first = material.disclosures[material.spec.fairness.attributes[0]]
            # A total less the groups shown would give the others away, but for secret noise.
            if material.spec.hides_counts or not first.suppresses:
                gain = noised_gain(published, hypotheses=_constants(material))
            found = _from_noise(material, gain)
            if gain is not None:
                how = FROM_NOISE if gain.one_hypothesis else _ONE_CONSTANT
                notes = dict.fromkeys(_NOISED, how) | dict.fromkeys(DECIDED, FROM_NOISE)
        case Rounder():
            counted = result.against_constant
            rows = 2**31 if counted is None else int(counted.rows.sum())
            found = _coarse(_exact(material, compared), step_of(rows, base=published.base))
        case ExactCounts():
            found = _exact(material, compared)
        case _:
            assert_never(published)
    found |= ranking_figures(material, compared, gain)
    start, best = found["start_loss"], found["selection_loss"]
    improved: bool | str = start if isinstance(start, str) else _NOT_FINITE
    if not isinstance(start, str) and not isinstance(best, str):
        improved = bool(best < start * (1 - _STILL))
    judged = _judgement(material, compared, gain, improved=improved)
    if judged.reason is not None:
        notes["degenerate"] = judged.reason
    if not material.chosen_by_losses:
        notes["best_round"] = _NOT_CHOSEN
    several = material.spec.training.hypotheses > 1
    found |= {
        "improved": improved,
        "too_good": _too_good(material.spec, found),
        "collapsed_rounds": result.collapsed_rounds if several else _ONE_HYPOTHESIS,
    }
    fields = with_reasons(found)
    if not isinstance(compared, str):
        fields.setdefault("baseline", compared.constant)
    return Utility(
        method=method_section(material.spec),
        **{**fields, "reasons": notes | fields["reasons"]},
        degenerate=judged.degenerate,
        rounds=result.rounds,
        best_round=result.best_round,
        stopped_by=result.stopped_by,
    )


def _too_good(spec: ExperimentSpec, found: Mapping[str, Any]) -> bool | str:
    """Judged by the figures that the report publishes, and nothing else of the held-out people."""
    source = spec.federation
    if not isinstance(source, Table) or source.answers_leak:
        return False
    known = {name: one for name, one in found.items() if not isinstance(one, str)}
    missing = _NOT_FINITE if "accuracy" in known else found["accuracy"]
    if not spec.classifies:
        if not known.keys() >= {"validation_loss", "baseline_loss"}:
            return missing
        most = known["baseline_loss"] * (_LEFT**0.5 if spec.training.root_mean else _LEFT)
        return bool(known["validation_loss"] <= most)
    gain, accuracy = known.get("accuracy_over_baseline"), known.get("accuracy")
    if accuracy is None and gain is not None and "outcome_share" in known:
        accuracy = known["outcome_share"] + gain
    if accuracy is None or gain is None:
        return missing
    return bool(gain > 0 and (accuracy > _TOO_GOOD or known.get("auc", 0) > _TOO_GOOD))


def _compared(material: ScoredMaterial) -> ConstantComparison | str:
    """What the scored rows add up to, or why there is no figure of them."""
    found = material.result.against_constant
    if material.everybody_withheld is not None:
        return material.everybody_withheld
    if found is None:
        return "the run did not hand over what a constant prediction gets on its rows"
    return _NOT_FINITE if finite(material.result.validation_loss) is None else found


def _exact(material: ScoredMaterial, compared: ConstantComparison | str) -> dict[str, Any]:
    """Each figure, or why it is missing; `baseline` only where it is."""
    result, asked = material.result, material.spec.fairness.intervals
    found = or_why({name: finite(getattr(result, name)) for name in _MEASURED}, _NOT_FINITE)
    found["prediction_share_interval"] = "only counts with noise give this share an interval"
    if not material.spec.classifies:
        found["accuracy"] = NO_ACCURACY
    if material.everybody_withheld is not None:
        found |= dict.fromkeys((*_MEASURED, "prediction_share_interval"), compared)
    if isinstance(compared, str):
        return {**found, **dict.fromkeys((*_COMPARED, *_INTERVALS), compared)}
    figures = over_constant(compared)
    shares = {name: figures.pop(name) for name in _SHARES}
    found |= or_why(figures, NO_ACCURACY) | or_why(shares, _NO_OUTCOME)
    gains: tuple[tuple[Floats | Ints | None, Floats | Ints], ...] = (
        (compared.accuracy_gain, compared.rows),
        (compared.saved, compared.weights),
    )
    for name, (gained, of) in zip(_GAINS, gains, strict=True):
        own: Interval | str = NO_INTERVALS
        if gained is None:
            own = NO_ACCURACY
        elif asked is not None:
            own = gain_interval(gained, of, level=asked.level, are_shares="loss" not in name)
        found[f"{name}_interval"] = interval_section(own, asked, method=GAIN_METHOD)
    return found


def _coarse(found: dict[str, Any], step: float) -> dict[str, Any]:
    """The constant's figures in steps that fit rounded counts. A gain is the model's published
    figure minus the constant's, so that it discloses no more about the rows than these two do."""
    coarse = dict(found)
    for name in ("baseline_accuracy", "baseline_loss", *_SHARES):
        if not isinstance(found[name], str):
            coarse[name] = nearest(found[name], _step(name, found[name], step))
    pairs = (("accuracy", "baseline_accuracy", 1), ("validation_loss", "baseline_loss", -1))
    for gain, (own, baseline, sign) in zip(_GAINS, pairs, strict=True):
        if isinstance(found[gain], str):
            continue
        coarse[gain] = without_dust(sign * (found[own] - coarse[baseline]))
        interval = found[f"{gain}_interval"]
        if not isinstance(interval, str):
            low, high = outward(
                interval.low, interval.high, _step(baseline, coarse[baseline], step)
            )
            coarse[f"{gain}_interval"] = interval.model_copy(
                update={"low": min(low, coarse[gain]), "high": max(high, coarse[gain])}
            )
    return coarse


def _step(name: str, value: float, step: float) -> float:
    return digit_step(value) if "loss" in name else step


def _from_noise(material: ScoredMaterial, gain: NoisedGain | None) -> dict[str, Any]:
    """What counts with noise say; nothing else of the held-out people is published."""
    missing = (*_MEASURED, *_COMPARED, *_INTERVALS, *_NOISED_INTERVALS)
    found: dict[str, Any] = dict.fromkeys(missing, WITHHELD)
    asked = material.spec.fairness.intervals
    if gain is None:
        return found
    found |= {name: getattr(gain, name) for name in _NOISED}
    if asked is None:
        return {**found, **dict.fromkeys(_NOISED_INTERVALS, NO_INTERVALS)}
    ends = (gain.gain_interval(asked.level), gain.share_interval(asked.level))
    for name, (low, high) in zip(_NOISED_INTERVALS, ends, strict=True):
        found[name] = IntervalSection(low=low, high=high, level=asked.level, method=METHOD)
    return found


def _constants(material: ScoredMaterial) -> int:
    """How many constants a model could be: one a hypothesis, or one a held-out client."""
    training = material.spec.training
    if training.method.personalises:
        return material.federation.clients - material.federation.training_clients
    return training.hypotheses


def _judgement(
    material: ScoredMaterial,
    compared: ConstantComparison | str,
    gain: NoisedGain | None,
    *,
    improved: bool | str,
) -> Judgement:
    if isinstance(material.published, NoisedCounts):
        if _constants(material) > 1:
            return Judgement(None, _NOT_BY_HYPOTHESIS)
        if material.result.threshold not in (None, 0.5):
            return Judgement(None, _NOT_WEIGHTED)
        return Judgement(None, WITHHELD) if gain is None else gain.judgement
    if isinstance(compared, str):
        return Judgement(None, compared)
    judged = judge_comparison(
        compared,
        clients_trained=material.spec.federation.holds_out_rows,
        rounded=isinstance(material.published, Rounder),
    )
    warm = isinstance(material.spec.model.start, ArtifactStart)
    if judged.degenerate is False and improved is False and not warm:
        return Judgement(None, _NOT_LEARNT)
    return judged


def _utility_checks(found: RunEvidence) -> Iterator[Check]:
    report, totals = found.report, found.totals
    stated = value_at(report, "utility", "rounds")
    # Not by counting up to the last round, whose number an altered row may set arbitrarily.
    expected = set(range(1, len(totals.rounds) + 1))
    missing = expected - totals.rounds
    if missing:
        bad = f"there is no entry of round {min(missing)}"
    else:
        bad = f"the report gives {shown(stated)} rounds, the ledger {len(totals.rounds)}"
    yield Check.of(
        "report.rounds",
        not missing and type(stated) is int and stated == len(totals.rounds),
        good="every round of the report has an entry",
        bad=bad,
    )


def _utility_limits(material: ReportMaterial) -> list[str]:
    spec, result = material.spec, material.result
    found = method_limits(spec)
    if result.collapsed_rounds:
        found.append(
            f"In {result.collapsed_rounds} of {result.rounds} rounds the uploads all fell into one "
            "of several clusters: only one hypothesis was trained."
        )
    if spec.training.relocates and spec.training.hypotheses > 1:
        found.append(
            "Empty clusters were moved to the farthest upload, so clusters are not the clients' "
            "own choices."
        )
    if material.everybody_withheld is None:
        found += _missed_kinds(material)
    sample = spec.training.stopping.validation_clients
    withheld = material.everybody_withheld is not None or sample is not None
    if withheld and material.chosen_by_losses:
        who = "all held-out people" if sample is None else f"{sample} clients drawn for each round"
        found.append(_STILL_CHOSEN.format(who=who))
    if result.stopped_by == "diverged":
        found.append(
            "Training diverged: the figures are of the best round before that, or of the "
            "hypotheses that training started from where there is none (round 0)."
        )
    return found


_STILL_CHOSEN = (
    "Losses of {who}, withheld or not, chose the best round and may have ended training: which "
    "rounds these are, and the model, depend on these people without noise."
)
_MISSED = 0.025
"""The chance at which an interval at 95 % misses on one side."""


def _missed_kinds(material: ReportMaterial) -> Iterator[str]:
    """What no interval of a gain can know, and what rows that are taken one by one do not say."""
    compared, fairness = material.result.against_constant, material.spec.fairness
    if compared is None or fairness.noise is not None:
        return
    clients = len(compared.rows)
    if clients < MIN_CLIENTS:
        yield (
            f"Too few clients, {clients}, were scored to show how the gain over a constant varies "
            "between clients. It was judged by rows taken one by one, so that it is shown, or not, "
            "for these clients alone."
        )
    elif fairness.intervals is not None:
        share = 100 * (1 - _MISSED ** (1 / clients))
        yield (
            f"Intervals of gains know clients like the {clients} that were scored. A kind of "
            f"client that makes up {share:.2g} % of all is missing among these with a chance of "
            f"{_MISSED:.1%}, a rarer one with a larger chance: how the model serves it shows "
            "nowhere."
        )


UTILITY = Section[ReportMaterial, RunEvidence](
    "utility", utility_section, _utility_checks, _utility_limits
)
