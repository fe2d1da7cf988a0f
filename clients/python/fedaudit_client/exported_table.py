"""A table of an experiment as a file in memory, for pyarrow and pandas where they are there."""

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas
    import pyarrow


class MissingLibraryError(ImportError):
    """A library is needed that this client does not bring."""


@dataclass(frozen=True)
class ExportedTable:
    """One table, as the service exports it."""

    parquet: bytes
    """The whole file; written as it is, any tool that reads Parquet takes it."""

    def to_arrow(self) -> "pyarrow.Table":
        """As a table of pyarrow. Raises MissingLibraryError where that is not installed."""
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise MissingLibraryError(
                "to_arrow() needs pyarrow, which is not installed here: pip install pyarrow"
            ) from error
        return parquet.read_table(io.BytesIO(self.parquet))

    def to_pandas(self) -> "pandas.DataFrame":
        """As a data frame of pandas. Raises MissingLibraryError where pandas or pyarrow lacks."""
        try:
            import pandas  # noqa: F401 said here, rather than by pyarrow
        except ImportError as error:
            raise MissingLibraryError(
                "to_pandas() needs pandas and pyarrow: pip install pandas pyarrow"
            ) from error
        return self.to_arrow().to_pandas()
