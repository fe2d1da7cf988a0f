"""Privacy and fairness audits of federated learning.

`from fedaudit import Client` is the client of a running service.
"""

from typing import TYPE_CHECKING, Any

from fedaudit.version import __version__

if TYPE_CHECKING:
    from fedaudit_client.client import Client

__all__ = ["Client", "__version__"]


def __getattr__(name: str) -> Any:
    # When it is asked for: whoever imports another part of the library needs no HTTP.
    if name == "Client":
        from fedaudit_client.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
