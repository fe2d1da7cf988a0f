"""What the tests of the packages share with those of the command line."""

from tests.cli.conftest import small_spec

__all__ = ["small_spec"]
