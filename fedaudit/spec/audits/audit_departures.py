"""Where an audit asks for more of a federation than its policy, or its registration, lets it."""

from collections.abc import Iterator

from fedaudit.spec.audits.audit_spec import AuditSpec, in_audit
from fedaudit.spec.audits.measuring_spec import measuring_spec
from fedaudit.spec.disclosure.disclosure_departures import spec_faults
from fedaudit.spec.disclosure.disclosure_policy import DisclosureFloor, DisclosurePolicy
from fedaudit.spec.errors import FieldError
from fedaudit.spec.fairness import without_label
from fedaudit.spec.registration import Registration
from fedaudit.spec.table import Table

_POLICY = "the federation's disclosure policy"
_KEY = (
    "this API key lacks the scope federations:read, so it may audit the data as they were "
    "registered only: take what the registration has, or ask someone whose key has that scope"
)


def policy_faults(
    policy: DisclosurePolicy, audit: AuditSpec, *, registration: Registration | None
) -> list[FieldError]:
    """Every field by which an audit departs from a federation's policy.

    `registration`: the federation's own, None where nobody registered it.
    """
    groups = policy.model_copy(update={"split": None, "source": None})
    found = in_audit(spec_faults(groups, measuring_spec(audit), registration=registration))
    # Without clients there is no telling whose rows a group's are; what fails for want of them is
    # said once, at the key.
    found = [fault for fault in found if fault.pointer != "/minimum_group_clients"]
    found += clients_faults(policy.minimum_group_clients or 1, audit, who=_POLICY)
    if policy.split is not None:
        found.append(
            _fault(
                "/path" if audit.id is None else "/id",
                f"{_POLICY} fixes which people are held out, and an audit compares all rows of a "
                "file; audit a file with these people alone",
            )
        )
    if policy.source is not None:
        found += [
            _fault(where, f"{what}, and {_POLICY} demands that")
            for where, what in _column_departures(audit, registration)
        ]
    return found


def floor_faults_of_audit(floor: DisclosureFloor, audit: AuditSpec) -> list[FieldError]:
    """By what an audit lies below the floor of the service."""
    found = []
    least = floor.minimum_group_size
    if audit.minimum_group_size < least:
        found.append(
            _fault(
                "/minimum_group_size",
                f"{audit.minimum_group_size} is below {least}, the least that this service allows "
                f"(FEDAUDIT_MIN_GROUP_SIZE); set it to {least} or more",
            )
        )
    return found + clients_faults(floor.minimum_group_clients, audit, who="this service")


def clients_faults(least: int, audit: AuditSpec, *, who: str) -> list[FieldError]:
    """That groups are of so many clients at least, and that these can be counted."""
    if least <= 1:
        return []
    if audit.client_key is None:
        return [
            _fault(
                "/client_key",
                f"is required: {who} shows groups of {least} clients or more, and without the "
                "column that names clients nobody can count them",
            )
        ]
    if audit.minimum_group_clients < least:
        return [
            _fault(
                "/minimum_group_clients",
                f"{audit.minimum_group_clients} is below {least}, the least that {who} allows; set "
                f"it to {least} or more",
            )
        ]
    return []


def registered_use_faults(audit: AuditSpec, registration: Registration) -> list[FieldError]:
    """Every field by which an audit looks at a file otherwise than its registration does.

    For callers who may not read federations: columns and rules that they were free to choose could
    each be chosen so that the answer depends on one cell. The messages quote no data.
    """
    return [
        _fault(where, f"{what}; {_KEY}")
        for where, what in (
            *_column_departures(audit, registration),
            *_group_departures(audit, registration),
        )
    ]


def _column_departures(
    audit: AuditSpec, registration: Registration | None
) -> Iterator[tuple[str, str]]:
    if registration is None or not isinstance(registration.federation, Table):
        yield ("/path" if audit.id is None else "/id"), "the data are not registered as a table"
        return
    source = registration.federation
    if audit.truth != source.target:
        yield "/truth", "is not the target that the data were registered with"
    free = source.features == "all" and audit.predicted_by not in source.drop
    if not free and audit.predicted_by not in source.named_features:
        yield f"/{audit.prediction_role}", "is no column that the data were registered with"
    if source.client_key is not None and audit.client_key != source.client_key:
        yield "/client_key", "is not the client key that the data were registered with"
    if source.client_key is None and audit.client_key is not None:
        yield "/client_key", "is given, and the data were registered without one"


def _group_departures(audit: AuditSpec, registration: Registration) -> Iterator[tuple[str, str]]:
    registered = registration.fairness
    for place, name in enumerate(audit.sensitive):
        if name not in registered.sensitive:
            yield f"/sensitive/{place}", "is not registered as a sensitive attribute"
        elif audit.edges.get(name) != registered.edges.get(name):
            yield f"/edges/{name}", "differs from the edges that the data were registered with"
    if without_label(audit.favourable) != without_label(registered.favourable):
        yield "/favourable", "differs from the rule that the data were registered with"
    for name in ("minimum_group_size", "minimum_group_clients"):
        if getattr(audit, name) < getattr(registered, name):
            yield f"/{name}", "lies below that which the data were registered with"
    if audit.reference_group is not None:
        yield "/reference_group", "names a group, which may be a value of the data"
    if any(
        words != registration.federation.labels.get(name) for name, words in audit.labels.items()
    ):
        yield "/labels", "differ from those that the data were registered with"


def _fault(where: str, message: str) -> FieldError:
    return FieldError(where, message, of_spec=True)
