"""What a fresh form fills in because the chosen federation, or the service, demands it."""

from collections.abc import Mapping

from fedaudit.spec.disclosure import DisclosureFloor, DisclosurePolicy


def demanded(
    typed: Mapping[str, str], policy: DisclosurePolicy, floor: DisclosureFloor
) -> dict[str, str]:
    """Texts by field, in the place of those in `typed` that would be refused."""
    found = {}
    for name, least in vars(floor).items():
        pointer = f"/fairness/{name}"
        bounds = (int(typed[pointer]), least, getattr(policy, name) or 1)
        found[pointer] = str(max(bounds))
    if policy.split is not None:
        found["/seed"] = str(policy.split.seed)
        found["/federation/validation_fraction"] = repr(policy.split.validation_fraction)
    return found
