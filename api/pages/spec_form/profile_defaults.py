"""What a fresh form begins with on registered data, as their registration and profile suggest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.pages.spec_form import fields
from api.pages.wording import plural
from fedaudit.fairness.permutation import MIN_CLIENTS
from fedaudit.federations.split import validation_clients
from fedaudit.reports.sections.outcome_words import outcome_of_profile
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.sources import Source
from models.tables.federations import Federation

_MOST_DRAWN = 70
_SHARE = "/federation/validation_fraction"
_DEFAULT_SHARE = float(Source.model_fields["validation_fraction"].default)


@dataclass(frozen=True)
class ProfileDefaults:
    """Texts by field, and in words why."""

    typed: dict[str, str]
    notes: tuple[str, ...]


def profile_defaults(row: Federation, policy: DisclosurePolicy) -> ProfileDefaults:
    """The defaults for a federation that is ready; what its policy fixes goes before."""
    registration, profile = row.registration or {}, row.profile or {}
    model, about_model = _model(profile)
    typed = {fields.SOURCE: row.id, "/name": row.name, fields.WHOSE_GROUPS: "source", **model}
    notes = [about_model] if about_model else []
    if clients := int(profile.get("clients", 0)):
        split, about_split = _split(clients, registration.get("federation", {}), policy)
        typed |= split
        notes += about_split
    registered = registration.get("fairness", {})
    if sensitive := registered.get("sensitive"):
        typed |= _smallest_groups(registered, policy)
        notes.append(f"Sensitive attributes, as registered: {', '.join(sensitive)}.")
        favourable = outcome_of_profile(profile, registration)
        if favourable is not None:
            notes.append(f"Favourable outcome, as registered: {favourable}.")
        elif not profile.get("classes"):
            notes.append(
                "No favourable outcome is registered, and a number has none by itself: under "
                "Fairness choose Others and give a rule."
            )
    return ProfileDefaults(typed, tuple(notes))


def _model(profile: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """The plainest model of the target and its loss; nothing where the profile names no target."""
    if "target" not in profile:
        return {}, ""
    target, classes = profile["target"], profile.get("classes") or ()
    if classes:
        kind, loss, what = "logistic", "cross-entropy", plural(len(classes), "class", "classes")
    else:
        kind, loss, what = "linear", "rmse", "a number"
    start = {"/model/kind": kind, "/model/start": "", "/training/loss": loss}
    return start, f"The target, {target}, is {what}: {kind} with {loss}."


def _split(
    clients: int, source: Mapping[str, Any], policy: DisclosurePolicy
) -> tuple[dict[str, str], list[str]]:
    """How many clients are held out, and how many are drawn of those that train."""
    if source.get("validation_unit", "client") == "record":
        cohort = _cohort(clients)
        return cohort, [_drawn(cohort, clients, held_out="rows of every client")]
    if clients < 2:
        return {}, []
    share = float(source.get("validation_fraction", _DEFAULT_SHARE))
    if policy.split is not None:
        share = policy.split.validation_fraction
    elif validation_clients(clients, validation_fraction=share) < MIN_CLIENTS:
        share = _share_to_judge(clients) or share
    held_out = validation_clients(clients, validation_fraction=share)
    cohort, training = _cohort(clients - held_out), clients - held_out
    notes = [_drawn(cohort, training, held_out=plural(held_out, "client"))]
    if missing := too_few_to_judge(held_out):
        notes.append(missing)
    return {_SHARE: f"{share:.6g}", **cohort}, notes


def too_few_to_judge(held_out: int) -> str | None:
    """Why gaps of so many held-out clients are hard to judge; None where they are enough."""
    if held_out >= MIN_CLIENTS:
        return None
    return (
        f"Gaps will be hard to judge: {plural(held_out, 'client')} held out, whose intervals are "
        f"wide, and comparing clients with chance needs {MIN_CLIENTS}."
    )


def _share_to_judge(clients: int) -> float | None:
    """The smallest share, in hundredths, that holds out enough; None where more than half would
    go."""
    for hundredths in range(1, 51):
        share = hundredths / 100
        if validation_clients(clients, validation_fraction=share) >= MIN_CLIENTS:
            return share
    return None


def _cohort(training: int) -> dict[str, str]:
    """Half of the clients that train, but enough for two hypotheses where there are two."""
    drawn = min(_MOST_DRAWN, max(training // 2, min(2, training)))
    return {"/training/cohort/clients": str(drawn)}


def _drawn(cohort: Mapping[str, str], training: int, *, held_out: str) -> str:
    drawn = cohort["/training/cohort/clients"]
    return f"Held out: {held_out}. Of {plural(training, 'client')} that train, {drawn} are drawn."


def _smallest_groups(registered: Mapping[str, Any], policy: DisclosurePolicy) -> dict[str, str]:
    """What the policy demands, else what was registered; the service's floor is applied later."""
    found = {}
    for name in ("minimum_group_size", "minimum_group_clients"):
        size = getattr(policy, name)
        if size is None:
            size = registered.get(name)
        if size is not None:
            found[f"/fairness/{name}"] = str(size)
    return found
