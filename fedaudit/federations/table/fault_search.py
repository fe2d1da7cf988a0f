"""Every fault of a table, once it has one, so that none is met only after another is repaired.

Loading and profiling stop at the first fault that they meet. Then the rows are read once more, each
column by itself, and what else does not fit is told with it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ParamSpec

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.scaling import check_scales
from fedaudit.federations.table.columns import BUDGETS, Columns, FeatureColumn, find_columns
from fedaudit.federations.table.features import read_features, with_gaps
from fedaudit.federations.table.joined_columns import with_joined
from fedaudit.federations.table.required_cells import RequiredCells
from fedaudit.spec.errors import FieldError, InvalidInputError, pointer
from fedaudit.spec.fairness import Groups
from fedaudit.spec.table import Table

Needs = ParamSpec("Needs")

MAX_FAULTS = 25
_TARGET = "/federation/target"


@contextmanager
def every_fault(
    source: Table,
    file: SourceFile,
    fairness: Groups,
    *,
    classes: bool,
    numbers: bool,
    budgets: str | None = None,
) -> Iterator[None]:
    """Work on a table whose fault is raised with all others that its rows show, MAX_FAULTS at most.

    `classes`: whether the target is known to be classes, `numbers`: to be numbers.
    """
    try:
        yield
    except InvalidInputError as error:
        found = _Search(source, fairness, classes=classes, numbers=numbers, budgets=budgets)
        with suppress(InvalidInputError):  # the file itself cannot be read, as `error` says
            found.read(file)
        faults = list(dict.fromkeys([*error.errors, *found.faults]))
        raise InvalidInputError(faults[:MAX_FAULTS]) from None


class _Search:
    """One pass over the rows; a column is left alone once it has a fault."""

    def __init__(
        self,
        source: Table,
        fairness: Groups,
        *,
        classes: bool,
        numbers: bool,
        budgets: str | None,
    ) -> None:
        self.faults: list[FieldError] = []
        self._source = source
        self._fairness = fairness
        self._classes = classes
        self._numbers = numbers
        self._budgets = budgets
        self._done: set[tuple[str, str]] = set()

    def read(self, file: SourceFile) -> None:
        """Raises InvalidInputError where columns are named wrongly, or the file is no table."""
        table = TableFile(file, header=self._source.header)
        columns = find_columns(
            self._source, table.names, self._fairness.sensitive, budgets=self._budgets
        )
        self._try(("scale", ""), self._check_scales, columns)
        required = RequiredCells(self._source, columns)
        for rows in table.batches(list(columns.fields)):
            self._check(rows, columns, required)
            if len(self.faults) >= MAX_FAULTS:
                return

    def _check(self, rows: TableRows, columns: Columns, required: RequiredCells) -> None:
        for name, where in columns.fields.items():
            self._try(("text", name), rows.text, name, where)
            if ("text", name) in self._done:
                return  # such a column cannot be compared with the texts that mean a gap
        rows = with_gaps(rows, columns.fields, self._source.missing_values)
        self._try(("join", ""), with_joined, rows, columns)
        for name, check in required.checks(rows):
            self._try(("required", name), check)
        rows = rows.where(required.present(rows) & _complete(rows, columns))
        if not len(rows):
            return
        for column in columns.features:
            self._try(("feature", column.name), self._check_feature, rows, column)
        self._check_groups(rows, columns)
        if self._numbers:
            self._try(("target", ""), rows.numbers, columns.target, _TARGET)
        if self._budgets is not None:
            self._try(("budgets", ""), rows.numbers, self._budgets, BUDGETS)

    def _check_feature(self, rows: TableRows, column: FeatureColumn) -> None:
        read_features(rows, (column,), scales=self._source.scale, standardise=None)

    def _check_groups(self, rows: TableRows, columns: Columns) -> None:
        for place, name in enumerate(columns.sensitive):
            if name in columns.joined:
                continue
            if name in self._fairness.edges:
                where = pointer("fairness", "edges", name)
                self._try(("group", name), _check_numbers, rows, name, where)
            else:
                where = pointer("fairness", "sensitive", place)
                self._try(("group", name), rows.encoded, name, where)

    def _check_scales(self, columns: Columns) -> None:
        check_scales(
            self._source.scale,
            features=[column.name for column in columns.features if not column.one_hot],
            one_hot=[column.name for column in columns.features if column.one_hot],
            target=columns.target,
            classes=self._classes,
        )

    def _try(
        self,
        what: tuple[str, str],
        check: Callable[Needs, object],
        *args: Needs.args,
        **kw: Needs.kwargs,
    ) -> None:
        """Run a check that has not failed yet, and keep its faults."""
        if what in self._done:
            return
        try:
            check(*args, **kw)
        except InvalidInputError as error:
            self._done.add(what)
            self.faults += error.errors


def _check_numbers(rows: TableRows, name: str, where: str) -> None:
    rows.numbers(name, where, missing_allowed=True)


def _complete(rows: TableRows, columns: Columns) -> NDArray[np.bool_]:
    """Where no feature is empty whose rule omits such rows, [rows]."""
    kept = np.ones(len(rows), dtype=np.bool_)
    for column in columns.features:
        if column.feature.drops_rows:
            kept &= ~rows.empty(column.name, column.where)
    return kept
