"""A federation's disclosure policy, and the floor of the service beneath it."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel

from fedaudit.spec.disclosure.disclosure_policy import DisclosureFloor, DisclosurePolicy


class DisclosureFloorBody(BaseModel):
    """What no submission or profile of this service may go below."""

    minimum_group_size: int
    minimum_group_clients: int


class DisclosureBody(DisclosurePolicy):
    """The policy, field by field; null is left to whoever asks."""

    floor: DisclosureFloorBody
    set_at: datetime | None
    """When it was changed last; null where nobody ever set one."""

    @classmethod
    def of(
        cls, policy: DisclosurePolicy, *, floor: DisclosureFloor, set_at: datetime | None
    ) -> Self:
        """The body of a policy."""
        return cls(
            **{name: getattr(policy, name) for name in DisclosurePolicy.model_fields},
            floor=DisclosureFloorBody(**vars(floor)),
            set_at=set_at,
        )
