"""The error of a run whose figures, computed twice, do not agree; it has no report."""


class FiguresDisagreeError(Exception):
    """Two computations of the same figure gave different values; the message names them."""
