"""Why a run whose figures were computed twice has no report."""


class FiguresDisagreeError(Exception):
    """Two ways to the same figure came to different values; the message names them."""
