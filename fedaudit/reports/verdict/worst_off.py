"""Who is worst off, in which direction, by how much, and how sure that is."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from fedaudit.fairness.gaps import NO_OUTCOME, OF_SELECTION, WIDE, gap_size, gap_words
from fedaudit.privacy.guarantees.cost_sentences import MOST
from fedaudit.reports.gates.gate_results import COSTS
from fedaudit.reports.sections.outcome_words import group_words
from fedaudit.reports.sections.part import AnswerReason, reason
from fedaudit.reports.sections.ranking import misplaced_threshold
from fedaudit.reports.sections.utility import not_shown_words, why_not_useful
from fedaudit.spec.gates import can_fail
from fedaudit.spec.metrics import HEADLINE, HEADLINE_WITHOUT_OUTCOME, METRICS

_SHOWN = 3


def fairness_part(report: Mapping[str, Any]) -> str:
    """The attribute that leads in full, then the others, from an otherwise complete report."""
    sections = report["fairness"]
    if not sections:
        return "No groups were compared: the spec names no sensitive attribute."
    known = by_unevenness(sections)
    sentences = []
    if known:
        sentences = [doubt_of_gaps(report), *_worst(report, known[-1]), *_others(known[-2::-1])]
    unknown = defaultdict[tuple[str, str], list[Mapping[str, Any]]](list)
    for one in sections:
        if _gap(one) is None:
            metric = headline_metric(one)
            basis = one["metrics"][metric]["reason"].rpartition("suppressed: ")[2]
            unknown[metric, basis].append(one)
    for (metric, _), (first, *others) in unknown.items():
        why = first["metrics"][metric]["reason"]
        sentences.append(f"{metric} by {first['attribute']} is unknown: {why}.")
        if others:
            names = ", ".join(one["attribute"] for one in others)
            whose = names if len(others) + 1 < len(sections) else "every other attribute"
            sentences.append(f"So it is by {whose}, for the same reason.")
    for attribute, groups in (report["spec"]["fairness"].get("groups") or {}).items():
        sentences += [f"By {attribute}, {one} joins {', '.join(of)}." for one, of in groups.items()]
    for attribute, values in (report["spec"]["fairness"].get("exclude") or {}).items():
        sentences.append(f"No figure counts rows with {attribute} {', '.join(values)}.")
    return " ".join(sentence for sentence in sentences if sentence)


def by_unevenness(sections: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those whose headline gap is known; the last one leads answer, headline and picture."""
    return sorted((one for one in sections if _gap(one) is not None), key=_unevenness)


_COUNTED = {
    "gap_size": WIDE,
    "counts_doubts": True,
    "every_attribute": True,
    "can_fail": True,
    "counts_method": True,
}


def counted_by(report: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Answer` that say what counts: those of the report's answer, where it has one,
    so that a signed answer stays the same."""
    answer: Mapping[str, Any] = report.get("answer") or _COUNTED
    return {name: answer.get(name) for name in _COUNTED}


def requires(report: Mapping[str, Any], gate: Mapping[str, Any]) -> bool:
    """Whether some value of the figure fails a gate, and its bound on a cost protects anyone."""
    if not counted_by(report)["can_fail"]:
        return True
    figure, op, bound = gate["figure"], gate["op"], gate["bound"]
    return can_fail(figure, op, bound) and not (figure in COSTS and op == "le" and bound > MOST)


_WIDEST_LEVEL = 0.99
"""Of an interval whose lower end is judged: one of a higher level could hide any gap."""


def unjudged_gap(report: Mapping[str, Any]) -> list[AnswerReason]:
    """The first headline gap whose whole interval is above the size that counts, or the gap itself
    if the spec asks for no intervals, or which is not known, where no gate limits it; empty for a
    model that is not shown to decide anything."""
    counted = counted_by(report)
    size = counted["gap_size"]
    if size is None or why_not_useful(report) is not None:
        return []
    asked = report["spec"]["fairness"].get("intervals")
    for section, metric in _without_gate(report):
        attribute, gap = section["attribute"], section["metrics"][metric]
        interval, low = gap["interval"], gap["value"]
        # A report of an earlier version was signed without this.
        if "doubt" in section and (why := section["doubt"] or (low is None and gap["reason"])):
            text = f"by {attribute} how wide {metric} is, is not known: {why}"
            return [reason("gap-not-known", text)]
        if interval is not None:
            if interval["level"] <= _WIDEST_LEVEL or not counted["can_fail"]:
                low = interval["low"]
        elif not counted["counts_doubts"] or asked is not None:
            continue
        if low is None or low <= size:
            continue
        # A report of an earlier version was signed with whether chance gives a gap as wide.
        if (null := gap.get("null")) is not None and null["p_value"] > 0.05:
            continue
        if words := gap_size(metric, gap["value"]):
            ends = "without an interval, which was not asked for, and"
            if interval is not None:
                ends = f"its interval {_figure(low)} to {_figure(interval['high'])} wholly"
            text = (
                f"by {attribute} {metric} is {words}, {ends} above {size:g}, and no gate says that "
                "this will do"
            )
            return [reason("gap-not-judged", text)]
    return []


def unsure_gap(report: Mapping[str, Any]) -> list[AnswerReason]:
    """The headline gaps without a gate that may exceed the size that counts, the widest first; a
    gap of unknown width comes before these. Earlier versions named the first alone."""
    counted, found = counted_by(report), list[tuple[float, str]]()
    size = counted["gap_size"]
    for section, metric in _without_gate(report):
        attribute, interval = section["attribute"], section["metrics"][metric]["interval"]
        gate = f"no gate judges the gap by {attribute} ({metric})"
        if metric not in METRICS:
            continue
        if interval is None:
            found.append((math.inf, f"{gate}: how wide it may be is not known"))
        elif size is not None and interval["high"] > size:
            most = _figure(interval["high"])
            found.append((interval["high"], f"{gate}: it may be as wide as {most}"))
    widest = sorted(found, key=itemgetter(0))[::-1]
    named = widest if counted["counts_method"] else widest[:1]
    return [reason("gap-may-be-wide", text) for _, text in named]


def _without_gate(report: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each section whose headline gap no gate bounds, and the metric, the one that leads first."""
    for section in sorted(report["fairness"], key=_unevenness)[::-1]:
        metric, gates = headline_metric(section), judging(report, section)
        if not any((one["op"], one["figure"]) == ("le", metric) for one in gates):
            yield section, metric


def judging(report: Mapping[str, Any], section: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What became of the gates on figures of an attribute, or of none. One that names no attribute
    judges each whose gap is known: its outcome names the worst, which earlier versions took for the
    only one."""
    every = counted_by(report)["every_attribute"] and _gap(section) is not None
    return [
        gate
        for gate, asked in zip(report["gates"], report["spec"]["gates"], strict=True)
        if requires(report, gate)
        and (
            gate["attribute"] in (None, section["attribute"])
            or (every and asked.get("attribute") is None)
        )
    ]


def headline_metric(section: Mapping[str, Any]) -> str:
    """The headline metric of an attribute: one of losses where no outcome is favourable."""
    counted = section["metrics"][HEADLINE]["reason"] != NO_OUTCOME
    return HEADLINE if counted else HEADLINE_WITHOUT_OUTCOME


def _gap(section: Mapping[str, Any]) -> float | None:
    found: float | None = section["metrics"][headline_metric(section)]["value"]
    return found


def _unevenness(section: Mapping[str, Any]) -> tuple[bool, float, float]:
    """How wide the headline gap is for sure, which few people show of no gap, and how wide it is;
    gaps of losses, which have another unit, are below those of rates."""
    metric = headline_metric(section)
    interval = section["metrics"][metric]["interval"] or {"low": 0.0}
    return metric in METRICS, interval["low"], _gap(section) or 0.0


def doubt_of_gaps(report: Mapping[str, Any]) -> str:
    """Why the gaps say nothing of how people would be treated; '' where they do."""
    if why_not_useful(report) is None:
        return ""
    if misplaced := misplaced_threshold(report["utility"], who="the model"):
        return f"{misplaced[0].upper()}{misplaced[1:]}: these gaps say nothing of other thresholds."
    if report["utility"].get("degenerate") is True:
        return "The model decides nothing, so these gaps say nothing of how it would treat people."
    return f"The model is {not_shown_words(report)}, so what these gaps say of it is not known."


def _worst(report: Mapping[str, Any], section: Mapping[str, Any]) -> list[str]:
    metric = headline_metric(section)
    metrics = (report.get("repeats") or {}).get("metrics", {})
    size, interval = gap_sentence(section, metric), section["metrics"][metric]["interval"]
    if not size and interval is not None and interval["low"] <= 0:
        size = "The interval reaches 0, so the groups may fare alike."
    return [
        worst_off(report, section),
        _stated(section, metric, metrics.get(f"{metric}[{section['attribute']}]")),
        size,
        "Whether it may be chance is not known." if interval is None else "",
        gap_sentence(section, OF_SELECTION),
    ]


@dataclass(frozen=True)
class Pair:
    """Two groups, the first of which fares worse."""

    rate: str
    """The name of a rate, `accuracy` or `loss`."""
    worse: Mapping[str, Any]
    better: Mapping[str, Any]

    @property
    def width(self) -> float:
        """How far the two are apart."""
        return float(abs(self.better[self.rate] - self.worse[self.rate]))


def headline_pair(section: Mapping[str, Any]) -> Pair | None:
    """The two groups of the headline gap, furthest apart in one of its rates, including any
    reference group; None where fewer than two groups have a rate."""
    metric, pairs = headline_metric(section), list[Pair]()
    for rate in METRICS[metric].family.rates if metric in METRICS else ("loss",):
        groups = _ascending(section, rate)
        if len(groups) < 2:
            continue
        ends = [(groups[0], groups[-1])]
        for one in groups:
            if one["value"] == section["reference_group"]:
                ends = [(groups[0], one), (one, groups[-1])]
        for low, high in ends:
            worse, better = (high, low) if rate == "loss" else (low, high)
            pairs.append(Pair(rate, worse, better))
    return max(pairs, key=lambda pair: pair.width, default=None)


def _ascending(section: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The groups that have a rate, accuracy or loss, the lowest first."""
    found = [one for one in section["groups"] if one.get(name) is not None]
    return sorted(found, key=itemgetter(name))


def worst_off(report: Mapping[str, Any], section: Mapping[str, Any]) -> str:
    """The two groups of the headline gap, with the rates or losses of both; '' without two."""
    pair, attribute = headline_pair(section), section["attribute"]
    if pair is None:
        return ""
    worse, better = (
        group_words(report, attribute=attribute, value=one["value"])
        for one in (pair.worse, pair.better)
    )
    if pair.rate != "loss":
        return _by_rates(section, pair, worse, better)
    high, low = _figure(pair.worse["loss"]), _figure(pair.better["loss"])
    if high == low:
        return ""
    return (
        f"By {attribute}, predictions are worst for {worse}: their loss is {high}, and {low} for "
        f"{better}."
    )


def _by_rates(section: Mapping[str, Any], pair: Pair, worse: str, better: str) -> str:
    low, high = (_percent(one[pair.rate]) for one in (pair.worse, pair.better))
    favourable = section.get("favourable")
    of, predicted = _counted(pair.rate, favourable)
    beginning = f"The favourable outcome is {favourable or 'not stated'}. By {section['attribute']}"
    # More true positives and more selected are better for people; of outcomes that are given to
    # those who lack them, a patient sent home for one, no report can say so.
    if pair.width == 0:
        return f"{beginning} all groups shown fare alike: {of}{low} {predicted}."
    first = f"{of}{high} of {better} and {low} of {worse} {predicted}."
    if _ascending(section, pair.rate)[0][pair.rate] < pair.worse[pair.rate]:
        # Only with a reference group, to which the gap is measured.
        return (
            f"{beginning}, {better} are furthest from the reference group {worse}: {first} Others "
            "are below both."
        )
    if pair.rate == "false_positive_rate":
        return f"{beginning}, {first} Whether that helps or harms them depends on the use."
    interval = section["metrics"][headline_metric(section)]["interval"]
    alike = interval is not None and interval["low"] <= 0
    word = "have the lowest rate" if alike else "are worst off"
    return f"{beginning}, {worse} {word}: {of}{low} of {worse} and {high} of {better} {predicted}."


def _counted(rate: str, favourable: str | None) -> tuple[str, str]:
    """The people of whom a rate is a share, and what was predicted for these."""
    if rate == "selection_rate":
        return "", "are predicted to have it"
    if rate == "false_positive_rate":
        return "of those without it in truth, ", "were predicted to have it"
    # Rules of several groups are too many words for one sentence.
    named = favourable if favourable and ";" not in favourable else "it"
    return f"of those with {named} in truth, ", "were predicted so"


def _stated(section: Mapping[str, Any], metric: str, seeds: Mapping[str, Any] | None) -> str:
    found = section["metrics"][metric]
    interval = found["interval"]
    stated = f"{metric} by {section['attribute']} is {_figure(found['value'])}"
    if interval is None:
        why = found["interval_reason"]
        stated += "" if why is None else f", and how sure that is, is not known: {why}"
    else:
        stated += f" ({_interval_words(interval)})"
    stated += f"; {found['reason']}." if found["reason"] else "."
    if seeds is not None and seeds["n"] > 1:
        stated += (
            f" Over {seeds['n']} seeds its mean is {_figure(seeds['mean'])} (95% interval "
            f"{_figure(seeds['low'])} to {_figure(seeds['high'])})."
        )
    return stated


def _interval_words(interval: Mapping[str, Any]) -> str:
    ends = f"{_figure(interval['low'])} to {_figure(interval['high'])}"
    return f"{interval['level']:.0%} interval {ends}"


def gap_sentence(section: Mapping[str, Any], metric: str) -> str:
    """How much a gap of a report's section is; '' where it has none, or no words for it."""
    found = section["metrics"][metric]
    if found["value"] is None:
        return ""
    interval = found["interval"]
    ends = None if interval is None else (interval["low"], interval["high"])
    return gap_words(metric, found["value"], interval=ends, reference=section["reference_group"])


def _others(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    stated = []
    for one in sections[:_SHOWN]:
        metric, sure = headline_metric(one), ""
        if interval := one["metrics"][metric]["interval"]:
            sure = f", {_interval_words(interval)}"
        stated.append(f"{_figure(_gap(one) or 0.0)} by {one['attribute']} ({metric}{sure})")
    left = len(sections) - _SHOWN
    more = f", and others by {left} more" if left > 0 else ""
    return [f"Then come gaps of {', '.join(stated)}{more}."] if stated else []


def _percent(share: float) -> str:
    """Such as `69%`; two digits for small shares and for small remainders."""
    if 0 < share < 0.01 or 0.99 < share < 1:
        return f"{share:.2%}"
    return f"{share:.0%}"


def _figure(value: float) -> str:
    return f"{value:.3g}"
