"""What the fields of the form are called."""

NAME = "name"
HEADER = "header"
CLIENT_KEY, CLIENTS, MISSING_CLIENT = "client_key", "clients", "missing_client"
TARGET, POSITIVE, MISSING_TARGET = "target", "positive", "missing_target"
RULE_OP, RULE_VALUE, RULE_LABEL = "rule_op", "rule_value", "rule_label"
MISSING_VALUES = "missing_values"

ROLES = (
    ("feature", "feature"),
    ("sensitive", "sensitive attribute"),
    ("both", "sensitive attribute, and a feature"),
    ("out", "left out"),
)
FEATURES, SENSITIVE = ("feature", "both"), ("sensitive", "both")
KINDS = (("numeric", "numbers"), ("categorical", "categories"))
GAPS = (
    ("reject", "are an error"),
    ("drop-row", "leave the row out"),
    ("constant", "take the value beside"),
)
RULE_OPS = (
    ("", "the good class above"),
    ("ge", "at least"),
    ("le", "at most"),
    ("in", "one of (with commas)"),
)


def of_column(place: int, part: str) -> str:
    """A field of the column at a place of the table, counted from 0."""
    return f"c{place}-{part}"


def of_join(place: int, part: str) -> str:
    """A field of an attribute that several columns may hold together."""
    return f"j{place}-{part}"
