"""What is found wrong with an input."""

from collections.abc import Callable
from typing import Any

import pytest

from fedaudit.spec.errors import FieldError, InvalidInputError


def refused_by(call: Callable[..., object], /, *arguments: Any, **named: Any) -> list[FieldError]:
    """The faults with which a call refuses its input; fails where it takes it."""
    with pytest.raises(InvalidInputError) as refused:
        call(*arguments, **named)
    return list(refused.value.errors)
