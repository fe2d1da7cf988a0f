"""The changes that are made to a file: operators of cosmic-ray, one change a mutant."""

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

_LEFT_OUT = ("RemoveDecorator", "VariableReplacer", "VariableInserter")
"""Of the operators: without its decorator next to nothing of a dataclass works, and the other two
need the names of variables."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: Path
    operator: str
    occurrence: int
    line: int

    def parses(self) -> bool:
        """Whether the change is Python: the star of `*rows` is taken for a product."""
        try:
            ast.parse(self.source())
        except SyntaxError:
            return False
        return True

    def source(self) -> str:
        """The changed file. Raises ValueError where the operator changes nothing."""
        changed = mutate_code(self.path.read_text(), _operator(self.operator), self.occurrence)
        if changed is None:
            raise ValueError(f"{self.operator} has no occurrence {self.occurrence}")
        return str(changed)

    def diff(self) -> str:
        """The changed lines, before and after."""
        before = self.path.read_text().splitlines()
        found = difflib.unified_diff(before, self.source().splitlines(), lineterm="", n=0)
        return "\n".join(line for line in found if not line.startswith(("---", "+++", "@@")))


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file but those that change annotations."""
    source = path.read_text()
    tree, lines = get_ast(source), source.splitlines()
    quiet = list(_annotations(ast.parse(source)))
    for name in operator_names():
        if name.endswith(_LEFT_OUT):
            continue
        operator = _operator(name)
        places = (
            (start, end)
            for node in ast_nodes(tree)
            for start, end in operator.mutation_positions(node)
        )
        for occurrence, (start, _) in enumerate(places):
            # A bare `*` among parameters is taken for a product.
            if lines[start[0] - 1].startswith("*,", start[1]):
                continue
            if not any(first <= start < last for first, last in quiet):
                yield Mutant(path, name, occurrence, line=start[0])


def _operator(name: str):
    return get_operator(name)()


def _annotations(tree: ast.AST) -> Iterator[tuple[Place, Place]]:
    """Where types are written, which no test can see: annotations, and names for unions."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as found):
                yield _span(found)
            case ast.FunctionDef(returns=ast.expr() as found):
                yield _span(found)
            case ast.AnnAssign(annotation=found):
                yield _span(found)
            case ast.Assign(value=ast.BinOp(op=ast.BitOr()) as found):
                yield _span(found)


def _span(node: ast.expr) -> tuple[Place, Place]:
    return (
        (node.lineno, node.col_offset),
        (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset + 1),
    )
