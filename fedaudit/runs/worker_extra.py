"""The libraries of the extra `worker`, which are tried before a run rather than at its end."""

from importlib import import_module

LIBRARIES = ("torch", "sklearn", "fairlearn")
"""Torch trains; Fairlearn and scikit-learn compute the report's fairness figures a second time."""


class MissingLibraryError(Exception):
    """A library that runs need cannot be imported; the message names the extra to install."""


def import_worker_extra() -> None:
    """Import what a run needs, which takes seconds the first time.

    Raises MissingLibraryError where one is not installed or cannot be loaded, so that no run
    trains for hours and then fails over its report.
    """
    for name in LIBRARIES:
        try:
            import_module(name)
        # OSError: torch is installed, and a shared library that it needs is not.
        except (ImportError, OSError) as error:
            raise MissingLibraryError(
                f"training needs {name}, which cannot be imported ({error}): "
                "pip install 'fedaudit[worker]'"
            ) from error
