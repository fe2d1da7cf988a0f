"""Under which policy of the federation's owner a report's groups were asked for."""

from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec

_FIXED = {
    "edges": "edges",
    "favourable": "the favourable outcome",
    "sensitive": "the sensitive attributes",
    "intersections": "their combinations",
    "split": "who is held out and scored",
    "source": "the columns and clients as registered",
}


def disclosure_limits(policy: DisclosurePolicy | None, spec: ExperimentSpec) -> list[str]:
    """What was fixed when the experiment was admitted, and what was left to whoever asked.

    `policy`: None where no service admitted it. Data that a spec makes up have no people.
    """
    made_up = spec.federation.traits.draws_data
    if policy is None or made_up or not spec.fairness.sensitive:
        return []
    left = [words for name, words in _FIXED.items() if getattr(policy, name) is None]
    set_by_owner = [
        *_minima(policy),
        *(words for name, words in _FIXED.items() if getattr(policy, name) is not None),
    ]
    if not set_by_owner:
        return [
            "The federation's owner had set no disclosure policy: group sizes, edges, the "
            "favourable outcome and the split are those of whoever asked. Reports on the same "
            "data that differ in one of them can give single people away."
        ]
    sentence = f"Set by the federation's owner: {', '.join(set_by_owner)}."
    if left:
        sentence += (
            f" Left to whoever asked: {', '.join(left)}; reports on the same data that differ "
            "there, or that were made before the policy, can give single people away."
        )
    return [sentence]


def _minima(policy: DisclosurePolicy) -> list[str]:
    found = []
    if policy.minimum_group_size is not None:
        found.append(f"groups of {policy.minimum_group_size} scored rows or more")
    if policy.minimum_group_clients is not None:
        found.append(f"of {policy.minimum_group_clients} clients or more")
    return found
