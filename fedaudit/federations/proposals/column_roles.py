"""Which columns seem to be client key, target or sensitive, by their names and their values.

All of it is a guess from words; a person decides.
"""

import re
from collections.abc import Sequence

from fedaudit.federations.proposals.surveyed_columns import Column

MAX_GROUP_VALUES = 100
MAX_CLASS_VALUES = 20
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")

_SENSITIVE = frozenset(
    [
        "sex",
        "gender",
        "female",
        "male",
        "race",
        "racial",
        "rac",
        "ethnic",
        "ethnicity",
        "hispanic",
        "hisp",
        "black",
        "white",
        "asian",
        "colour",
        "color",
        "skin",
        "age",
        "agep",
        "religion",
        "religious",
        "faith",
        "caste",
        "disability",
        "disabled",
        "dis",
        "nationality",
        "nation",
        "national",
        "native",
        "nativity",
        "citizen",
        "citizenship",
        "cit",
        "immigrant",
        "foreign",
        "marital",
        "married",
        "mar",
        "orientation",
        "pregnant",
        "veteran",
        "language",
        "zip",
        "zipcode",
        "postcode",
    ]
)
_CLIENTS = [
    "client",
    "hospital",
    "site",
    "centre",
    "center",
    "clinic",
    "provider",
    "institution",
    "bank",
    "branch",
    "school",
    "university",
    "writer",
    "device",
    "user",
    "customer",
    "subject",
    "patient",
    "person",
    "household",
    "employer",
    "company",
    "department",
    "store",
    "organisation",
    "organization",
    "state",
    "province",
    "county",
    "region",
    "district",
    "city",
    "town",
    "village",
    "country",
    "zip",
    "zipcode",
    "postcode",
]
_TARGETS = [
    "target",
    "label",
    "class",
    "outcome",
    "y",
    "response",
    "recid",
    "recidivism",
    "default",
    "readmitted",
    "readmission",
    "approved",
    "approval",
    "hired",
    "admitted",
    "admission",
    "churn",
    "fraud",
    "diagnosis",
    "diagnosed",
    "disease",
    "death",
    "died",
    "mortality",
    "income",
    "pincp",
    "earnings",
    "salary",
    "wage",
    "passed",
    "pass",
    "result",
    "decision",
    "grade",
    "credit",
    "risk",
    "score",
    "price",
    "cost",
    "charges",
    "payments",
]
_BAD = frozenset(
    [
        "recid",
        "recidivism",
        "default",
        "readmitted",
        "readmission",
        "churn",
        "fraud",
        "diagnosis",
        "diagnosed",
        "disease",
        "death",
        "died",
        "mortality",
        "risk",
        "denied",
        "rejected",
        "arrest",
        "arrested",
        "dropout",
    ]
)
_YES = ("yes", "y", "true", "t", "1", "1.0", "good", "approved", "pass", "passed", "high", ">50k")
_NO = ("no", "n", "false", "f", "0", "0.0", "bad", "denied", "fail", "failed", "low", "<=50k")


def words_of(name: str) -> list[str]:
    """The words in a column's name, in small letters: `two_year_recid`, `AgeGroup`."""
    return [word.casefold() for word in _WORD.findall(name)]


def client_candidates(columns: Sequence[Column]) -> list[Column]:
    """Columns that may name clients, the likeliest first: named so, and with rows to each."""
    found = [
        (min(_CLIENTS.index(word) for word in words), place, column)
        for place, column in enumerate(columns)
        if (words := set(words_of(column.name)) & set(_CLIENTS)) and _names_clients(column)
    ]
    return [column for _, _, column in sorted(found, key=lambda one: one[:2])]


def target_candidates(columns: Sequence[Column]) -> list[Column]:
    """Columns that may be the target, the likeliest first; the last column where none is named
    so."""
    found = [
        (min(_TARGETS.index(word) for word in words), -place, column)
        for place, column in enumerate(columns)
        if (words := set(words_of(column.name)) & set(_TARGETS)) and _may_be_target(column)
    ]
    if found:
        return [column for _, _, column in sorted(found, key=lambda one: one[:2])]
    return [column for column in reversed(columns) if _may_be_target(column)][:1]


def sensitive_word(column: Column) -> str | None:
    """The word by which a column seems to be sensitive."""
    return next((word for word in words_of(column.name) if word in _SENSITIVE), None)


def good_class(column: Column) -> tuple[str, str]:
    """Of a target's two classes the one that seems good for people, and why."""
    first, last = column.distinct
    yes = _spelled(_YES, (first, last)) or last
    no = _spelled(_NO, (first, last)) or (first if yes == last else last)
    bad = next((word for word in words_of(column.name) if word in _BAD), None)
    if bad is not None:
        return no, f"`{bad}` in the name sounds bad for people, so the other class is good"
    return yes, "nothing in the name sounds bad for people"


def _names_clients(column: Column) -> bool:
    """At least two, and on average two rows to each."""
    present = column.rows - column.missing
    if column.many or column.fractions:
        return False
    return 2 <= len(column.distinct) <= present / 2


def _may_be_target(column: Column) -> bool:
    several = len(column.distinct) >= 2
    return several and (column.numeric or (not column.many and len(column.distinct) <= 100))


def _spelled(words: Sequence[str], values: Sequence[str]) -> str | None:
    found = [value for value in values if value.casefold() in words]
    return found[0] if len(found) == 1 else None
