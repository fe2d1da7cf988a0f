"""A whole experiment proposed from declared facts: settings that learn, at a cost that was asked
for, with the reason of each.

It sees numbers of clients and rows, columns, declared ranges, budgets, policies and, where the
profile shows it, how often the rarer of two classes occurs; else nothing of outcomes or values.
Rows and that share are powers of two: who may read a spec may not see how many rows there are, and
hardly ever does one row more change it. The rules were compared with experiments on several tables
(docs/usefulness.md):

- Updates are cut to a clip that is shorter than they are, so that each uses all of it. All rounds
  together go a length of 3 to 9, which a regression of classes needs, with noise of about 1.25 in
  all, or more on many parameters (`bearable_noise`); of numbers a length of 1 to 3, with 0.15.
- Of a rare class a client's update is short once the model predicts the other one, so steps grow as
  it becomes rarer, up to eightfold, and the threshold is its share.
- At a given cost the ratio of noise and updates follows from the numbers of clients and parameters,
  and hardly from the number of rounds or the share of clients that take part in one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fedaudit.federations.split import validation_clients
from fedaudit.networks.shape import network_shape
from fedaudit.number_text import at_most
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import (
    DROWNED,
    Projection,
    TargetedFigure,
    bearable_noise,
    enough,
    expected_update,
    noise_ratio,
)
from fedaudit.runs.declared_facts import DeclaredFacts, nearest_power_of_two
from fedaudit.spec.disclosure import spec_faults
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import OFTEN_RIGHT
from fedaudit.spec.models import Linear, Logistic
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import EVERY_NUMBER, parse_registration, with_registration
from fedaudit.utility import MIN_CLIENTS

ProposedUnit = Literal["client", "record"]
_LEAST_CLIENTS = 10
_COHORT, _COHORT_WITHOUT_NOISE = 1000, 100
"""Clients of a round that are enough where there are more."""
_ROUNDS, _ROUNDS_OF_RECORDS, _ROUNDS_WITHOUT_NOISE = 30, 40, 60
_BLOCKS = tuple(every for every in range(1, _ROUNDS + 1) if _ROUNDS % every == 0)
_RECORD_STEPS = 5
_EVEN = 0.5
"""The evenness below which the largest client would take far longer steps."""
_LARGE = 0.25
"""Share of all rows of a client beside which held-out others show little."""
_NOISE_IN_ALL, _NOISE_OF_RECORDS = {"class": 1.25, "number": 0.15}, 3.0
"""Length of the noise of all rounds. More steps of records pull a model back to where it fits."""
_REACH = {"class": (3.0, 9.0), "number": (1.0, 3.0)}
"""How far all rounds together may go, at least and at most. Numbers of order 1 differ by tenths."""
_ABOUT = "about {:.0f} rows, to the nearest power of two: one row more or less is not seen"
_UNKNOWN_SHARE = (
    "how often an outcome occurs is not known: where one is rare, as one in fifty, the model "
    "may decide nothing, whatever is expected here"
)
_UNKNOWN_MIDDLE = (
    "where values are is not declared: where most are far from 0 and near each other, as 3 and 4, "
    "the model may never reach them, whatever is expected here; declare {mean, deviation}, by what "
    "is publicly known, in place of the divisor under `federation.scale`"
)
_RARE, _LONGEST_STEP = 1 / 8, 8.0
"""The share from which on a class is rare, and how many times as long a step becomes at most."""
_OF_RARE = 2.0, 0.3
"""The clip of records, and a step's share: a clip of 1 cuts the rarer class's gradients alone."""
_TOO_RARE = 1 / 512
"""The share from which on a model with noise is hardly ever shown to be better than a constant."""
_FEW_ROUNDS = 1.6  # how much more noise weighs where few rounds average little of it
_MANY_FEATURES = 64
_FEW_ROWS, _ROWS_A_FEATURE = 10, 3


@dataclass(frozen=True, kw_only=True)
class ProposalAim:
    """What was asked for; None leaves a choice to the proposal."""

    epsilon: float | None = None
    delta: float | None = None
    leakage: float | None = None
    unit: ProposedUnit | None = None
    private: bool = True


@dataclass(frozen=True)
class Reason:
    """Why a field of the spec has its value."""

    pointer: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ProposedExperiment:
    """A spec that can be submitted as it is."""

    spec: dict[str, Any]
    """The spec as a person would write it: what it leaves out follows from the registration."""
    reasons: tuple[Reason, ...]
    projection: Projection
    ratio: float
    """Expected length of the noise over that of the updates, over all rounds."""
    lacks: str | None
    """What has to be declared or set first, whatever could be learnt."""
    learns_if: str | None
    """What else would make something useful of it; None where that is expected as it is."""

    @property
    def needs(self) -> str | None:
        """What would make something useful of it, first what it lacks."""
        return self.lacks or self.learns_if

    @property
    def expected_useful(self) -> bool:
        """Whether a model is expected that is better than a constant; of classes whose share is
        not known, if none is rare."""
        return self.needs is None


@dataclass
class _Draft:
    """A proposal that is being made."""

    facts: DeclaredFacts
    aim: ProposalAim
    unit: ProposedUnit
    spec: dict[str, Any] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)

    def put(self, pointer: str, value: Any, reason: str = "") -> None:
        """Set a field, and say why."""
        *way, last = pointer.removeprefix("/").split("/")
        place = self.spec
        for step in way:
            place = place.setdefault(step, {})
        place[last] = value
        if reason:
            self.say(pointer, reason)

    def say(self, pointer: str, reason: str) -> None:
        """Why a field has its value."""
        self.reasons.append(Reason(pointer, reason))

    def parsed(self) -> ExperimentSpec:
        """The spec, with what the registration has. Raises InvalidInputError."""
        return parse_spec(with_registration(self.spec, self.facts.registration))

    @property
    def training_clients(self) -> int:
        """How many clients train."""
        clients, source = self.facts.clients, self.spec["federation"]
        if source["validation_unit"] != "client":
            return clients
        share = source["validation_fraction"]
        return clients - validation_clients(clients, validation_fraction=share)

    @property
    def share_of_rows(self) -> float:
        """The share of a client's rows that train, if it trains."""
        source = self.spec["federation"]
        held_out = float(source["validation_fraction"])
        return 1.0 if source["validation_unit"] == "client" else 1 - held_out

    @property
    def parameters(self) -> int:
        """n."""
        model = Logistic(kind="logistic") if self.facts.classes else Linear(kind="linear")
        return network_shape(model, features=self.facts.features, classes=self.facts.classes).n

    @property
    def is_wide(self) -> bool:
        """Whether features are pixels, or as many columns of one kind."""
        return self.facts.features > _MANY_FEATURES

    @property
    def active(self) -> int:
        """Numbers of a row that are not 0, at most; a category is one."""
        named = self.facts.source.get("features", "all")
        return 1 + (self.facts.features if named == "all" else len(named))

    def projection(self) -> Projection:
        """The cost, from the spec and numbers of clients alone."""
        return mechanism_of(self.parsed()).project_cost(
            n=self.parameters, training_clients=self.training_clients, layers=(self.parameters,)
        )

    def ratio(self, projection: Projection) -> float:
        """See `ProposedExperiment.ratio`; 0 without noise."""
        return noise_ratio(
            self.parsed(),
            sizes=(self.parameters,),
            training_clients=self.training_clients,
            rows=self.facts.mean_rows * self.share_of_rows,
            noise_multiplier=projection.noise_multiplier,
        )

    def figure(self) -> TargetedFigure:
        """The epsilon of clients by the noise multiplier."""
        found = mechanism_of(self.parsed()).targeted_figure(
            n=self.parameters, training_clients=self.training_clients
        )
        assert found is not None, "noise on clients' sums has an epsilon"
        return found

    def ratio_at(self, epsilon: float) -> float:
        """The ratio of the same spec for records at another epsilon."""
        fields = {"epsilon_min": epsilon, "epsilon_max": epsilon}
        other = replace(self, spec={**self.spec, "privacy": {**self.spec["privacy"], **fields}})
        return other.ratio(other.projection())


def propose_experiment(facts: DeclaredFacts, aim: ProposalAim) -> ProposedExperiment:
    """The experiment that suits these facts. Raises InvalidInputError where what is asked for
    cannot be had, such as an epsilon that no noise reaches."""
    facts = replace(
        facts,
        rows=nearest_power_of_two(facts.rows),
        median_rows=nearest_power_of_two(facts.median_rows or facts.mean_rows),
        most_rows=nearest_power_of_two(facts.most_rows or facts.mean_rows),
    )
    if aim.private and aim.epsilon is None and aim.leakage is None:
        # The limit of the shipped policy for a release.
        if facts.leakage_left is not None:
            aim = replace(aim, leakage=min(OFTEN_RIGHT, facts.leakage_left))
        else:
            aim = replace(aim, epsilon=min(OFTEN_RIGHT, facts.epsilon_left or OFTEN_RIGHT))
    units: tuple[ProposedUnit, ...] = ("client",)
    if aim.private and aim.leakage is None:
        units = (aim.unit,) if aim.unit else ("client", "record")
    found = [_proposed(facts, aim, unit) for unit in units]
    useful = [one for one in found if one.expected_useful]
    learn = [one for one in found if one.learns_if is None]
    chosen = (useful or learn or sorted(found, key=lambda one: one.ratio))[0]
    if chosen is found[0]:
        return chosen
    why = f"records are protected, and no whole clients: {found[0].learns_if or found[0].lacks}"
    return replace(chosen, reasons=(Reason("/privacy/mechanism", why), *chosen.reasons))


def _proposed(facts: DeclaredFacts, aim: ProposalAim, unit: ProposedUnit) -> ProposedExperiment:
    draft = _Draft(facts, aim, unit)
    draft.put("/spec_version", 1)
    asked = {"epsilon": aim.epsilon, "leakage": aim.leakage}
    costs = [f"{unit}s at {name} {one:g}" for name, one in asked.items() if one is not None]
    draft.put("/name", ", ".join([facts.name[:150], *(costs or ["without privacy"])]))
    draft.put("/seed", facts.policy.split.seed if facts.policy.split else 1)
    draft.put("/federation/id", facts.federation_id)
    _put_split(draft)
    _put_conditioning(draft)
    _put_group_sizes(draft)
    kind, loss = ("logistic", "cross-entropy") if facts.classes else ("linear", "mse")
    target = f"one of {facts.classes} classes" if facts.classes else "a number"
    draft.put("/model/kind", kind, f"the target is {target}; the plainest model needs least noise")
    unknown = _UNKNOWN_SHARE if facts.classes and facts.rarer_share is None else ""
    if unknown and facts.classes == 2:
        unknown += "; declare a `decision.threshold` near its share"
    if not facts.classes and not isinstance(_target_scale(facts.source), Mapping | None):
        unknown = _UNKNOWN_MIDDLE
    draft.put("/training/loss", loss, unknown)
    _put_threshold(draft)
    draft.put("/training/hypotheses", 1, "several would split the clients, each with its noise")
    draft.put("/training/stopping/patience", None, "noise moves losses and would end it too early")
    if not aim.private:
        _put_no_privacy(draft)
    elif aim.leakage is not None:
        _put_metric_privacy(draft, aim.leakage)
    elif aim.epsilon is None:
        raise ValueError("a private aim has an epsilon or a leakage")
    elif unit == "record":
        _put_records(draft, aim.epsilon)
    else:
        _put_clients(draft, aim.epsilon)
    if not facts.may_simulate:
        draft.put("/privacy/noise", "release", "the federation forbids noise drawn from the seed")
    elif aim.private:
        why = "a first run, which can be repeated; `release` puts the guarantee in force"
        draft.put("/privacy/noise", "simulation", why)
    projection = draft.projection()
    ratio = draft.ratio(projection)
    if draft.spec["privacy"]["mechanism"] == "gaussian-central":
        # It is found again at submission, also where somebody changes the rounds before.
        noise = draft.spec["privacy"].pop("noise_multiplier")
        why = f"the least noise that meets it is found: a noise multiplier of {noise:g}"
        draft.put("/privacy/target", {"epsilon": aim.epsilon}, why)
    return ProposedExperiment(
        spec=draft.spec,
        reasons=tuple(draft.reasons),
        projection=projection,
        ratio=ratio,
        lacks=_refused(draft) or _undeclared(draft),
        learns_if=_learns_if(draft, ratio, projection.noise_multiplier or 0.0),
    )


# -- data -----------------------------------------------------------------------------------------


def _put_split(draft: _Draft) -> None:
    facts, split = draft.facts, draft.facts.policy.split
    if split is not None:
        document = split.model_dump(mode="json", exclude={"seed"})
        draft.spec["federation"] |= document
        draft.say("/federation/validation_fraction", "as the federation's policy demands")
        return
    share = float(facts.source.get("validation_fraction", 0.3))
    unit, why = "record", "all clients train, and rows of each are held out"
    if facts.largest_share >= _LARGE:
        so = "so that held-out ones would say little of it, or of the others"
        why = f"one client has about a quarter of the rows or more, {so}: {why}"
    elif draft.unit == "client" or not draft.aim.private:
        unit, why = "client", f"gaps between groups are judged by {MIN_CLIENTS} clients or more"
        # Else the smallest, in hundredths, that holds out enough, unless more than half would go.
        for other in (share, *(hundredths / 100 for hundredths in range(1, 51))):
            if validation_clients(facts.clients, validation_fraction=other) >= MIN_CLIENTS:
                share = other
                break
        else:
            why = (
                f"{why}, and there are too few: `validation_unit: record` holds out rows of each, "
                "so that all train and are measured, by figures that no guarantee covers"
            )
    draft.put("/federation/validation_unit", unit)
    draft.put("/federation/validation_fraction", share, why)


def _put_conditioning(draft: _Draft) -> None:
    """Features near 0 of size 1, without looking at more of the data than is protected."""
    facts, source, where = draft.facts, draft.facts.source, "/federation/standardise"
    known = ("table", "hospital-charges")
    if source["source"] not in known or facts.policy.source == "registered" or draft.is_wide:
        return
    if source["source"] == "hospital-charges":
        draft.put(where, "ranges", "ranges of hospital charges are known: no data are looked at")
    elif not draft.aim.private:
        draft.put(where, "global", "means and deviations of all training rows")
    elif all(isinstance(one, Mapping) for one in _scales(source).values()):
        draft.put(where, "ranges", "all features have declared ranges: this looks at no data")
    elif draft.unit == "client" and facts.mean_rows >= _FEW_ROWS:
        why = "a client's means and deviations are protected with it, as the unit is the client"
        draft.put(where, "client", why)
    else:
        why = "declare ranges {low, high} under `federation.scale`: training then learns faster"
        draft.put(where, None, why)


def _scales(source: Mapping[str, Any]) -> dict[str, Any]:
    """What is declared of each numeric feature: a divisor, a mapping, or None."""
    scale, named = source.get("scale", {}), source.get("features", "all")
    features = [EVERY_NUMBER] if named == "all" else named
    whole = [{"name": one} if isinstance(one, str) else one for one in features]
    numeric = [one["name"] for one in whole if one.get("kind", "numeric") == "numeric"]
    return {name: scale.get(name, scale.get(EVERY_NUMBER)) for name in numeric}


def _target_scale(source: Mapping[str, Any]) -> Any:
    """What a table's registration declares of its target; None for nothing, or no table."""
    return source.get("scale", {}).get(source["target"]) if source["source"] == "table" else None


def _put_group_sizes(draft: _Draft) -> None:
    registered = draft.facts.registration.get("fairness", {})
    for name, least in vars(draft.facts.floor).items():
        needed = max(least, getattr(draft.facts.policy, name) or 1)
        if registered.get(name, 1) < needed:
            draft.put(f"/fairness/{name}", needed, "the least that policy and service allow")


# -- training -------------------------------------------------------------------------------------


def _put_threshold(draft: _Draft) -> None:
    """Where a class is rare, hardly any row passes a threshold of a half."""
    positive, rarer = draft.facts.positive_share, draft.facts.rarer_share
    if positive is None or rarer is None or rarer > _RARE:
        return
    why = (
        f"about one row in {1 / rarer:.0f} has the rarer class, to the nearest power of two: the "
        "profile shows it, and no guarantee covers it"
    )
    draft.put("/decision/threshold", rarer if positive < 0.5 else 1 - rarer, why)


def _put_local(draft: _Draft) -> None:
    """Steps of a client between two uploads: short enough for the curvature, which grows with the
    features and with the rarer class's share, and enough of them to use the clip."""
    facts = draft.facts
    rows = facts.median_rows or facts.mean_rows
    conditioned = draft.spec["federation"].get("standardise") is not None
    if draft.is_wide:
        step = 0.1
    elif facts.classes == 0:
        step = (0.5 if conditioned or facts.source["source"] == "table" else 0.1) / draft.active
    else:
        step = min(0.3, 8 / draft.active) if conditioned else 1.0
        step *= max(1.0, min(_LONGEST_STEP, _RARE / (facts.rarer_share or _RARE)))
    batch = max(10, int(rows // 10))
    epochs = max(1, min(5, round(5 * batch / rows)))
    steps = max(1, round(epochs * rows / batch))
    # The largest client would take hundreds of times as many, for an update that is cut.
    taken = {"epochs": epochs} if facts.largest_share < _LARGE else {"steps": steps}
    local = {**taken, "batch_size": batch, "step_size": float(f"{step:.2g}")}
    draft.put("/training/local", local, f"{steps} steps for a client of {_ABOUT.format(rows)}")


def _put_no_privacy(draft: _Draft) -> None:
    draft.put("/training/rounds", _ROUNDS_WITHOUT_NOISE)
    drawn = min(draft.training_clients, _COHORT_WITHOUT_NOISE)
    draft.put("/training/cohort", {"sampling": "fixed", "clients": drawn})
    _put_local(draft)
    draft.put("/privacy/mechanism", "none", "as asked for: it shows what could be learnt")


def _put_clients(draft: _Draft, epsilon: float) -> None:
    """Noise on sums at the server, for whole clients."""
    clients = draft.training_clients
    every = next((one for one in _BLOCKS if clients <= one * _COHORT), _ROUNDS)
    draft.put("/training/rounds", _ROUNDS)
    cohort: dict[str, Any] = {"sampling": "poisson", "rate": 1.0}
    drawn, why = clients / every, ""
    if every > 1:
        # Coins of the same rate need 3 to 15 % more noise for the same epsilon.
        cohort, why = {"sampling": "allocation", "every": every}, ", each once in a block"
    draft.put("/training/cohort", cohort, f"noise is averaged over {drawn:.0f} a round{why}")
    _put_local(draft)
    why = f"of {clients} clients that train whole ones can be protected, if the server is trusted"
    draft.put("/privacy/mechanism", "gaussian-central", why)
    draft.put("/privacy/clip", 1.0)
    _put_delta(draft, clients, f"{clients} clients train")
    totals = draft.facts.epsilon_left is not None
    why = "a total composes runs by it, and may refuse less noise by `pld`" if totals else ""
    draft.put("/privacy/accountant", "rdp" if totals else "pld", why)
    draft.put("/privacy/noise_multiplier", 1.0)
    noise = draft.figure().least_noise(epsilon)
    draft.put("/privacy/noise_multiplier", noise)
    _put_clip(draft, noise * math.sqrt(draft.parameters / _ROUNDS) / drawn)


def _put_metric_privacy(draft: _Draft, leakage: float) -> None:
    """Noise at the clients, each of whom takes part once."""
    clients, n = draft.training_clients, draft.parameters
    rounds = max(1, min(_ROUNDS, clients // 5))
    drawn = max(1, clients // rounds)
    draft.put("/training/rounds", rounds)
    cohort = {"sampling": "fixed", "clients": drawn}
    draft.put("/training/cohort", cohort, "a client takes part about once, and pays each time")
    _put_local(draft)
    noise = float(f"{1.0005 * n / leakage:.4g}")
    draft.put("/privacy/mechanism", "laplace-l2", "a leakage is asked for, of metric privacy")
    draft.put("/privacy/noise_multiplier", noise, f"{n} parameters over nu for one participation")
    why = "a client that would pass it takes no further part"
    draft.put("/privacy/client_budget", leakage, why)
    _put_clip(draft, 2 * noise * math.sqrt((n + 1) / n) / math.sqrt(drawn * rounds))
    radius = 2 * draft.spec["privacy"]["clip"]
    draft.put("/privacy/radius", radius, "twice the clip, so that the guarantee is formal")
    if draft.facts.classes and not draft.is_wide:  # short steps use a part of a long clip
        step = draft.spec["training"]["local"]["step_size"]
        length = expected_update(draft.parsed(), n=n, rows=draft.facts.median_rows or 1.0)
        longer = max(step, min(step * radius / length, 8 / draft.active))
        draft.put("/training/local/step_size", float(f"{longer:.2g}"))


def _put_clip(draft: _Draft, spent: float) -> None:
    """`spent`: length of the noise of all rounds over that of all clips."""
    rounds, (shortest, longest) = draft.spec["training"]["rounds"], _REACH[draft.facts.target]
    noise = _NOISE_IN_ALL[draft.facts.target] * bearable_noise(draft.parameters)
    reach = max(shortest, min(longest, noise / spent))
    moved = f"all rounds move a model by {reach:.2g}, noise by {spent * reach:.2g}"
    draft.put("/privacy/clip", float(f"{reach / rounds:.2g}"), f"shorter than updates: {moved}")


def _put_records(draft: _Draft, epsilon: float) -> None:
    """Noise in every local step, for single records."""
    facts = draft.facts
    rows = (facts.most_rows or facts.mean_rows) * draft.share_of_rows
    rounds, steps = _ROUNDS_OF_RECORDS, _RECORD_STEPS
    if facts.evenness < _EVEN:
        rounds, steps = rounds * steps, 1
    why = "" if steps > 1 else "clients differ in size: after each step they are averaged"
    draft.put("/training/rounds", rounds, why)
    draft.put("/training/cohort", {"sampling": "poisson", "rate": 1.0}, "every client, every round")
    draft.put("/training/local", {"steps": steps, "batch_size": max(1, int(rows))})
    why = f"only divides: the largest client has {_ABOUT.format(facts.most_rows or 0)}"
    draft.say("/training/local/batch_size", why)
    draft.put("/privacy/mechanism", "record-personalised")
    draft.put("/privacy/budgets", {"distribution": "three-levels"})
    draft.put("/privacy/epsilon_min", epsilon, "as large as epsilon_max: all records spend alike")
    draft.put("/privacy/epsilon_max", epsilon)
    above = 2 * facts.rows
    _put_delta(draft, above, f"{above}, a power of two, is above the rows, and hides how many")
    clip, slower = _OF_RARE if (facts.rarer_share or 1.0) <= _RARE else (1.0, 1.0)
    draft.put("/privacy/clip", clip)
    spent = draft.ratio(draft.projection())
    largest = 0.3 if draft.is_wide else min(2.0, (12 if facts.classes else 0.5) / draft.active)
    step = slower * largest * max(0.1, min(1.0, _NOISE_OF_RECORDS * 3 / (spent * rounds * steps)))
    why = f"for {rounds * steps} steps in all"
    if steps == 1:
        # All clients' sums are divided by the rows of the largest.
        step, why = step / facts.evenness, f"{why}, divided by the rows of the largest client"
    draft.put("/training/local/step_size", float(f"{step:.2g}"), why)


def _put_delta(draft: _Draft, units: int, named: str) -> None:
    """The largest power of ten with less than a tenth of one of the units, at most 0.001."""
    usual = float(f"1e{min(-3, math.ceil(-math.log10(10 * units)) - 1)}")
    delta = draft.aim.delta or min(usual, draft.facts.epsilon_delta or usual)
    why = f"below a tenth of 1 / {units}: {named}" if delta == usual else "as asked for or budgeted"
    draft.put("/privacy/delta", delta, why)


# -- judgement ------------------------------------------------------------------------------------


def _learns_if(draft: _Draft, ratio: float, noise_multiplier: float) -> str | None:
    """See `ProposedExperiment.learns_if`."""
    facts, clients = draft.facts, draft.training_clients
    least = _ROWS_A_FEATURE * facts.features
    if facts.rows < least:
        return f"{facts.features} features need about {least} rows; there are about {facts.rows}"
    by_client = draft.unit == "client"
    if draft.aim.private and by_client and clients < _LEAST_CLIENTS:
        return (
            f"noise that hides a whole client needs {_LEAST_CLIENTS} clients that train at least, "
            f"and {clients} of {facts.clients} would"
        )
    rarer = facts.rarer_share
    if draft.aim.private and rarer is not None and rarer <= _TOO_RARE:
        return (
            f"about one row in {1 / rarer:.0f} has the rarer class, of which a model with noise "
            f"learns too little; needed is about one in {0.5 / _TOO_RARE:.0f}"
        )
    ratio /= DROWNED if draft.aim.leakage is None else DROWNED / _FEW_ROUNDS
    if ratio < 1:
        return None
    # Rounded up: beside what was asked for, less would be no advice.
    times = at_most(ratio, digits=2)
    stated = f"the noise of all rounds would be {times} times what updates can bear; needed"
    of_what = "clients that train" if by_client else "rows of each client"
    if draft.aim.leakage is not None:
        more, cost = clients * ratio**2, draft.aim.leakage * ratio
        at_least = f", or a leakage of about {at_most(cost, digits=2)}"
    else:
        # More units are given a smaller delta, which needs more of them.
        more, at_least = 1.3 * ratio * (clients if by_client else facts.mean_rows), ""
        less = noise_multiplier * 0.999 / ratio
        needed = draft.figure().projected(less) if by_client else enough(draft.ratio_at)
        if needed is not None:
            at_least = f", or an epsilon of about {at_most(needed, digits=2)}"
    return f"{stated} are about {math.ceil(more)} {of_what}{at_least}"


def _refused(draft: _Draft) -> str | None:
    """Why submission refuses the spec whatever it learns; None where it does not."""
    facts = draft.facts
    has_total = facts.epsilon_left is not None or facts.leakage_left is not None
    if not draft.aim.private and (has_total or not facts.may_simulate):
        return "the federation has a total or forbids simulation, and so refuses runs without noise"
    if facts.bounds_reports:
        return (
            "the federation has a total against readers of reports, and so refuses runs without "
            "`fairness.noise`: set it, and what it may cost"
        )
    known = parse_registration(facts.registration)
    faults = spec_faults(facts.policy, draft.parsed(), registration=known)
    return f"submission refuses {faults[0].pointer}: {faults[0].message}" if faults else None


def _undeclared(draft: _Draft) -> str | None:
    """What the registration must state first; None where it states enough."""
    facts = draft.facts
    groups = facts.registration.get("fairness", {})
    if facts.classes > 2 and groups.get("sensitive") and not groups.get("favourable"):
        return (
            f"submission refuses it until the registration says which of {facts.classes} classes "
            "are favourable, as in `fairness.favourable: {op: in, value: [CLASS]}`"
        )
    source = facts.source
    if source["source"] != "table":
        return None
    scales, conditioned = _scales(source), draft.spec["federation"].get("standardise", "")
    unscaled = [one for one in scales if not scales[one]]
    if unscaled and not conditioned:
        return (
            f"nothing is known of the size of {', '.join(unscaled[:5])}: declare them as {{low, "
            "high}} by `federation.scale`"
        ).replace(EVERY_NUMBER, "the features")
    if draft.aim.private and not facts.classes and _target_scale(source) is None:
        return (
            f"nothing is known of the size of {source['target']}, which is predicted: declare "
            "{mean, deviation} under `federation.scale`, a number near its middle and how far from "
            "it values usually are, by what is publicly known"
        )
    return None
