"""What the owners of a federation and of the service admit: groups, and simulated noise.

A policy belongs to the content, as budgets do: it stays when the file is deleted, uploaded or
registered again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.budgets import refuse_exact_figures
from api.shared.security import Call
from fedaudit.privacy.accounting.privacy_events import CostKind
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.disclosure import (
    DisclosureFloor,
    DisclosurePolicy,
    floor_faults,
    hiding_faults,
    parse_disclosure_policy,
    spec_faults,
)
from fedaudit.spec.errors import FieldError, raise_errors
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Fairness, Groups
from fedaudit.spec.registration import Registration, parse_registration
from fedaudit.spec.sources import Source
from infrastructure.settings import Settings
from models.repositories import Budgets, FederationRepository, NearCopyRepository
from models.tables.federations import Federation

_PAST_RELEASE_BUDGETS = (
    "this federation has a budget for release noise, and the experiment's noise is simulated from "
    "its seed: the run counts against no total of the release book, and nothing protects its "
    "report and model; the budget lists it in `uncounted`, and privacy.noise `release` would count "
    "it"
)
_NO_NOISE = (
    "this federation has a budget for release noise, and nothing bounds what the experiment's "
    "report and model reveal: it has no noise, or none that is counted. No total counts it; the "
    "budget lists it in `uncounted`"
)


def floor_of(settings: Settings) -> DisclosureFloor:
    """What nothing on this service may go below."""
    return DisclosureFloor(
        minimum_group_size=settings.min_group_size, minimum_group_clients=settings.min_group_clients
    )


def policy_of(row: Federation) -> DisclosurePolicy:
    """The policy of a federation's content; an empty one where none was set."""
    return DisclosurePolicy() if row.disclosure is None else parse_disclosure_policy(row.disclosure)


def stored_policy(policy: DisclosurePolicy) -> Mapping[str, Any] | None:
    """A policy as it is stored: the fields that bind; None where none does."""
    return policy.model_dump(mode="json", exclude_none=True) or None


def registration_of(row: Federation) -> Registration | None:
    """The registration of a federation; None where it has none."""
    return None if row.registration is None else parse_registration(row.registration)


def refuse_below_floor(settings: Settings, groups: Groups) -> None:
    """Raises InvalidInputError where groups would be shown that the service never shows."""
    raise_errors([*floor_faults(floor_of(settings), groups)])


def refuse_hiding(
    call: Call, fingerprint: str, fairness: Fairness, source: Source | None = None
) -> None:
    """Raises InvalidInputError where figures hide what neither service nor owner asks to hide."""
    floor = floor_of(call.resources.settings)
    if any(hiding_faults(fairness, source, floor)):
        with call.reading() as session:
            found = FederationRepository(session, call.project_id)
            rows = [*filter(None, (found.find(fingerprint), found.of_owner(fingerprint)))]
            known = filter(None, map(registration_of, rows))
            raise_errors([*hiding_faults(fairness, source, floor, *map(policy_of, rows), *known)])


_COUNTED_LATER = (
    "leaves out rows that a later report could count, and the two together would give their "
    "figures: register the data (`fedaudit federations add`), let their disclosure policy leave "
    "out the same for every report (`fedaudit api PUT federations/ID/disclosure --body FILE`), and "
    "submit again"
)


def refuse_departures(
    budgets: Budgets, federation_id: str, spec: ExperimentSpec
) -> DisclosurePolicy:
    """The policy of the content's owner for a spec; in the caller's write transaction. Where
    another project owns the content, the project's own binds as well. Raises InvalidInputError
    where the spec departs from either."""
    found = budgets.hold(id=federation_id)
    if found is None:
        raise LookupError(f"federation {federation_id}: this project has no such federation")
    owners = None
    if not budgets.sharing(federation_id).is_owner:
        federations = FederationRepository(budgets.session, budgets.project_id)
        owners = federations.of_owner(found.fingerprint)
    refuse_by_policies((found, owners), spec_faults, spec)
    # A report states what the owner had set, not what a guest set for itself.
    policy = policy_of(found if owners is None else owners)
    if spec.fairness.exclude and policy.exclude is None and not spec.federation.traits.made_up:
        raise_errors([FieldError("/fairness/exclude", _COUNTED_LATER, of_spec=True)])
    return policy


def refuse_by_policies(
    rows: Iterable[Federation | None], faults: Callable[..., list[FieldError]], asked: object
) -> None:
    """Raises InvalidInputError where what is asked for departs, by `faults`, from the policy of a
    content. `rows`: the project's own federation with it, and that of another project which owns
    it."""
    found: list[FieldError] = []
    for row in rows:
        if row is not None and row.disclosure is not None:
            found += faults(policy_of(row), asked, registration=registration_of(row))
    raise_errors(list(dict.fromkeys(found)))


def refuse_what_is_not_secret(budgets: Budgets, federation_id: str, spec: ExperimentSpec) -> None:
    """Raises ProblemError where the federation, or with budgets across the service the owner of
    its content, forbids simulation and the spec's noise is not secret, there is none, or an attack
    publishes what no noise protects; in the caller's write transaction."""
    budgets.hold(id=federation_id)
    if not budgets.sharing(federation_id).forbids_simulation:
        return
    if mechanism_of(spec).cost_kind == "unbounded":
        raise _forbidden(
            federation_id,
            "it admits runs only whose secret noise bounds what they reveal, and nothing bounds "
            "this one; give privacy.mechanism one whose cost is counted, and privacy.noise "
            "`release`",
        )
    if spec.privacy.noise == "simulation":
        raise _forbidden(
            federation_id,
            "the experiment's noise is drawn from its seed and can be drawn again by anyone; set "
            "privacy.noise to `release`",
        )
    refuse_attacks_that_tell(budgets, federation_id, spec)


def refuse_attacks_that_tell(budgets: Budgets, federation_id: str, spec: ExperimentSpec) -> None:
    """The same of attacks alone, also of those that are asked for after a run; and where a total on
    what reports reveal would refuse the run."""
    budgets.hold(id=federation_id)
    book = None if mechanism_of(spec).cost_kind == "unbounded" else spec.privacy.noise
    for attack in (one for one in spec.attacks if one.tells_of_people):
        if spec.fairness.noise is None:
            what = f"the attack `{attack.kind}`"
            refuse_exact_figures(budgets, federation_id, what, book=book)
        if budgets.sharing(federation_id).forbids_simulation:
            raise _forbidden(
                federation_id,
                f"the result of the attack `{attack.kind}` follows from people's data, and no "
                "secret noise protects it; leave it out of `attacks`",
            )


def _forbidden(federation_id: str, detail: str) -> ProblemError:
    detail = f"this federation forbids simulation: {detail}"
    return ProblemError("simulation-forbidden", detail, federation_id=federation_id)


def warnings_of(
    budgets: Budgets, federation_id: str, *, noise: str, cost_kind: CostKind
) -> list[str]:
    """What a caller must know of a run on this federation that is admitted all the same. A run
    without noise is admitted where the totals are for readers of the report and its counts have
    noise, and where the totals were set later."""
    own = (budgets.session, budgets.project_id)
    alike = near_copy_warnings(*own, [federation_id]).get(federation_id, [])
    of_release = (
        one for one in budgets.budgets(federation_id, shown=False) if one.book == "release"
    )
    if not any(one.total is not None for one in of_release):
        return alike
    if cost_kind == "unbounded":
        return [_NO_NOISE, *alike]
    return [_PAST_RELEASE_BUDGETS, *alike] if noise == "simulation" else alike


def near_copy_warnings(
    session: Session, project_id: str, federation_ids: Sequence[str]
) -> dict[str, list[str]]:
    """The warnings of each federation that it has mostly the rows of other registered content;
    other projects are not named."""
    found: dict[str, list[str]] = defaultdict(list)
    strangers: set[str] = set()
    for federation_id, other_id, others in NearCopyRepository(session).of(federation_ids):
        if others == project_id:
            whose = f"federation {other_id} of this project"
        elif federation_id not in strangers:
            # The closest one comes first, and represents all.
            strangers.add(federation_id)
            whose = "other registered content"
        else:
            continue
        # No share of rows: files that differ by one row would disclose whether others have it.
        found[federation_id].append(
            f"it has nearly the same rows as {whose}, or one is a part of the other; the budgets "
            "are separate: a person with a row in both spends twice, and no budget adds it up"
        )
    return found
