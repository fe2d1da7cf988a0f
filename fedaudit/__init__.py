"""Privacy and fairness audits of federated learning.

`from fedaudit import Client` is the client of a running service.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedaudit_client.client import Client

    __version__: str

__all__ = ["Client", "__version__"]


def how_to_install(extra: str) -> str:
    """The command. fedaudit is on no index, where anyone may take its name."""
    where = "WHEEL is the file of fedaudit's wheel, or the path of its checkout"
    return f"pip install 'WHEEL[{extra}]', where {where}"


def __getattr__(name: str) -> Any:
    # When it is asked for: other parts of the library need no HTTP and no lists of packages.
    if name == "Client":
        from fedaudit_client.client import Client

        return Client
    if name == "__version__":
        from importlib.metadata import version

        return version(__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
