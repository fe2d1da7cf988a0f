"""Reports to publish."""

from tests.reports.conftest import material

__all__ = ["material"]
