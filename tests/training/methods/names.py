"""The methods that a spec may name."""

from fedaudit.spec.training import method_parts


def method_names() -> set[str]:
    """What a spec may give as `training.method.kind`."""
    return {name for part in method_parts() for name in part.names()}
