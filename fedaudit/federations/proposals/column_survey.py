"""What the columns of a table hold, and what they seem to be, by names and values.

Which column is client key, target or sensitive is a guess from words; a person decides.

`words.txt` has what columns are called in the large languages of Europe, and what a name's words
mean. A word that ends in `-` begins longer ones, and one that begins with `-` ends them: `klinik-`
is in `Klinikname`, `-nummer` in `Fallnummer`. Accents and capitals do not matter. Earlier words of
a language name their concept more likely than later ones.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedaudit.federations.levels import in_order
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.labels import number_in

Concept = Literal[
    "client", "target", "sensitive", "age", "thing", "identifier", "until", "since", "yes", "no"
]
"""A `target` with ! is bad for people. The age of a `thing` is no person's. `until`: what is
known only at the end of an observation, and `since`: the rest of a survival table, where such a
column is in it."""
_SPELLINGS = str.maketrans({"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def _plain(text: str) -> str:
    """Remove accents."""
    parts = unicodedata.normalize("NFKD", text.translate(_SPELLINGS))
    return "".join(one for one in parts if not unicodedata.combining(one))


def words_of(name: str) -> list[str]:
    """The words in a column's name, in small letters without accents: `two_year_recid`,
    `AgeGroup`."""
    return [word.casefold() for word in _WORD.findall(_plain(name))]


def _ranks() -> dict[str, dict[str, int]]:
    """By concept, each word, or part of a word, and its place among those of its language. Each
    line of `words.txt` has words of one language, which is named first."""
    text = Path(__file__).with_name("words.txt").read_text("utf-8")
    found: dict[str, dict[str, int]] = {}
    for concept, lines in re.findall(r"^\[(\w+)\]\n([^\[]*)", text, re.MULTILINE):
        ranks: dict[str, int] = {}
        read: Counter[str] = Counter()
        for language, *words in map(str.split, _plain(lines).casefold().strip().split("\n")):
            for word in words:
                ranks[word] = min(read[language], ranks.get(word, read[language]))
                read[language] += 1
        found[concept] = ranks
    return found


_RANKS = _ranks()


def named(name: str, concept: Concept, *, bad: bool = False) -> tuple[int, str] | None:
    """The word by which a column's name speaks of a concept, behind its rank: the least. `bad`:
    whether words that sound bad for people count alone."""
    found = [
        (rank, word)
        for word in words_of(name)
        for known, rank in _RANKS[concept].items()
        if _is(word, known.rstrip("!")) and (known.endswith("!") or not bad)
    ]
    return min(found, default=None)


def _is(word: str, known: str) -> bool:
    begins = known.endswith("-") and word.startswith(known[:-1])
    return word == known or begins or (known.startswith("-") and word.endswith(known[1:]))


if TYPE_CHECKING:
    from fedaudit.federations.profiles.profile import RowSample

FEW_CODES = 10
MAX_VALUES = 1000
"""Distinct values of a column beyond which they are no longer distinguished."""
_SEVERAL = 20
"""Rows from which on a different value in each is no accident."""
_DATE = re.compile(r"(\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2})([ T].*)?")
_OTHER_NUMBER = re.compile(r"[-+]?[\d.,' ]*\d[\d.,' ]*([€$£%]|EUR|USD|GBP|CHF)?")
_GAPS = {"?", "na", "n/a", "#n/a", "nan", "null", "none", "-", ".", "missing"}
_GAPS |= {"k.a.", "k. a.", "keine angabe"}


@dataclass
class Column:
    """One column of the rows that were read."""

    name: str
    rows: int = 0
    values: Counter[str] = field(default_factory=Counter)
    """Rows of each distinct text that is not empty, as long as there are MAX_VALUES at most."""
    many: bool = False
    """Whether there are more, and `values` holds the first only."""
    sampled: Counter[str] = field(default_factory=Counter)
    """Then rows of the texts in a sample: the first values of a sorted file are the least."""
    empty: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    """Rows of the distinct texts that are no numbers, as long as they are few."""
    low: float = math.inf
    high: float = -math.inf
    fractions: bool = False
    """Whether some number is not whole."""

    def add(self, values: Sequence[str], rows: Sequence[int]) -> None:
        """Count distinct texts of some rows."""
        for text, count in zip(values, rows, strict=True):
            self.rows += count
            if not text:
                self.empty += count
                continue
            if (number := number_in(text)) is not None:
                self.low, self.high = min(self.low, number), max(self.high, number)
                self.fractions |= not number.is_integer()
            elif text in self.texts or len(self.texts) < MAX_VALUES:
                self.texts[text] += count
            if text in self.values or len(self.values) < MAX_VALUES:
                self.values[text] += count
            else:
                self.many = True

    @property
    def gaps(self) -> tuple[str, ...]:
        """The texts that seem to mean an empty cell. Among words `none` is a category: to have no
        insurance is no gap."""
        found = {text for text in self.texts if text.casefold() in _GAPS}
        if found != set(self.texts):
            found = {text for text in found if text.casefold() != "none"}
        return tuple(sorted(found))

    @property
    def below_zero(self) -> str | None:
        """The only value below 0 of a column of numbers, which may be a code for an empty cell."""
        found = [text for text in self.values if (number_in(text) or 0.0) < 0]
        return found[0] if len(found) == 1 and len(self.values) > _SEVERAL else None

    @property
    def missing(self) -> int:
        """Rows without a value, those whose texts seem to mean none among them."""
        return self.empty + sum(self.texts[text] for text in self.gaps)

    @property
    def numeric(self) -> bool:
        """Whether every value is a number."""
        numbers = self.rows > self.missing
        return numbers and not set(self.texts) - set(self.gaps)

    @property
    def tells_apart(self) -> bool:
        """Whether no value is in two rows, of those that are kept, and none is a fraction."""
        present = self.rows - self.missing
        once = all(rows == 1 for rows in self.values.values())
        return once and not self.fractions and present >= _SEVERAL

    @property
    def coded(self) -> bool:
        """Whether its numbers may be codes: few whole ones, or some that begin with 0."""
        few = not (self.fractions or self.many) and 2 < len(self.distinct) <= FEW_CODES
        return few or any(text[0] == "0" and text[1:].isdigit() for text in self.values)

    @property
    def unread(self) -> str | None:
        """Why its texts are read neither as numbers nor as categories, where they are others."""
        texts = [text for text in self.texts if text not in self.gaps]
        if texts and all(map(_DATE.fullmatch, texts)):
            return "it holds dates, which no feature takes; give years, or days as a number"
        if texts and all(map(_OTHER_NUMBER.fullmatch, texts)):
            return (
                f"numbers written as {texts[0]!r} are not read; write digits and a decimal point "
                "alone"
            )
        return None

    def quantile(self, share: float, *, of_sizes: bool = False) -> float:
        """The number, or absolute value, below which this share of the rows with numbers is."""
        counted = (self.sampled or self.values).items()
        numbers = ((one, rows) for text, rows in counted if (one := number_in(text)) is not None)
        found = sorted((abs(one) if of_sizes else one, rows) for one, rows in numbers)
        left = sum(rows for _, rows in found) * share
        for number, rows in found:
            left -= rows
            if left <= 0:
                return number
        return 0.0

    @property
    def distinct(self) -> list[str]:
        """The values, in the order of a registration; the first ones where there are many."""
        return in_order([value for value in self.values if value not in self.gaps], numeric=True)


@dataclass(frozen=True)
class Survey:
    """The columns of a table, in its order."""

    columns: tuple[Column, ...]
    rows: int
    complete: bool
    """Whether all rows were read."""
    header: bool
    """Whether the first line names the columns."""
    sample: "RowSample"
    note: str | None = None
    """How the file is read, where a person should know."""


MAX_SURVEYED_COLUMNS = 2000
_WHERE = "/federation/path"


def survey_table(file: SourceFile, *, header: bool, most_rows: int) -> Survey:
    """The columns of at most `most_rows` rows. Raises InvalidInputError for what is no table."""
    # Imported where it is used: the API starts without pyarrow.
    import pyarrow.compute as pc

    from fedaudit.federations.profiles.profile import RowSample
    from fedaudit.federations.reading.table_files import TableFile

    table = TableFile(file, header=header)
    if len(table.names) > MAX_SURVEYED_COLUMNS:
        raise file.fault(
            f"has {len(table.names)} columns, and a registration is proposed for "
            f"{MAX_SURVEYED_COLUMNS} at most; write it yourself, or take out columns"
        )
    columns = tuple(Column(name) for name in table.names)
    rows, complete, sample = 0, True, RowSample(table.names)
    for batch in table.batches(table.names):
        complete = rows + len(batch) <= most_rows
        read = batch if complete else batch.part(0, most_rows - rows)
        rows += len(read)
        for column in columns:
            counts: Any = pc.value_counts(read.text(column.name, _WHERE))
            column.add(counts.field("values").to_pylist(), counts.field("counts").to_pylist())
        sample.add(read)
        if not complete:
            break
    for column in columns:
        if column.many:
            column.sampled = Counter(sample.texts(column.name))
    return Survey(columns, rows, complete, header, sample, table.note)


MAX_GROUP_VALUES = 100
MAX_CLASS_VALUES = 20


def client_candidates(columns: Sequence[Column]) -> list[Column]:
    """Columns that may name clients, the likeliest first: named so, and with rows to each."""
    return _named([column for column in columns if _names_clients(column)], "client")


def possible_clients(columns: Sequence[Column]) -> list[Column]:
    """Columns of texts that may name clients, though their own names do not show it; those with
    most values first."""
    texts = (column for column in columns if not (column.numeric or column.unread))
    found = [one for one in texts if _names_clients(one) and len(one.distinct) >= FEW_CODES]
    return sorted(found, key=lambda one: -len(one.distinct))


def target_candidates(columns: Sequence[Column]) -> list[Column]:
    """Columns that may be the target, the likeliest first: classes that are named so, the last
    column where it has classes, numbers that are named so; without any the last column."""
    possible = [column for column in reversed(columns) if _may_be_target(column)]
    found = _named(possible, "target")
    first = [column for column in found if _has_classes(column)]
    if found and not first and _ends_in_classes(possible[0]):
        first = possible[:1]
    return first + [column for column in found if column not in first] or possible[:1]


def _has_classes(column: Column) -> bool:
    return not (column.many or column.fractions) and len(column.distinct) <= MAX_CLASS_VALUES


def _ends_in_classes(column: Column) -> bool:
    """Whether it has two classes, or named ones, and neither names clients nor is sensitive."""
    is_other = named(column.name, "client") is not None or sensitive_word(column) is not None
    counts = column.numeric and len(column.distinct) > 2
    return _has_classes(column) and not (is_other or counts)


def _named(columns: Sequence[Column], concept: Concept) -> list[Column]:
    """The columns whose name has a word of the concept, in the order of its words."""
    ranks = [(named(column.name, concept), place) for place, column in enumerate(columns)]
    found = sorted((rank[0], place) for rank, place in ranks if rank is not None)
    return [columns[place] for _, place in found]


def sensitive_word(column: Column) -> str | None:
    """The word by which a column seems to be sensitive."""
    found = named(column.name, "sensitive")
    # `car_age` is no person's, but `account_holder_age` is.
    words = pairwise(words_of(column.name))
    if not any(named(before, "thing") and named(word, "age") for before, word in words):
        found = named(column.name, "age") or found
    return None if found is None else found[1]


def good_class(column: Column) -> tuple[str, str]:
    """The one of a target's two classes that seems good for people, and why."""
    classes = first, last = column.distinct
    pairs = ((first, last), (last, first))
    # As `not improved` does.
    denies = next((one for one, other in pairs if words_of(one)[1:] == words_of(other)), None)
    no = spelled("no", classes) or denies
    yes = spelled("yes", classes) or (first if no == last else last)
    if (bad := named(column.name, "target", bad=True)) is not None:
        no = first if yes == last else last
        return no, f"`{bad[1]}` in the name sounds bad for people, so the other class is good"
    sound = [one for one in classes if one != denies and named(one, "target", bad=True)]
    for one, other in pairs:
        if sound == [one]:
            return other, f"`{one}` sounds bad for people; check whether this one is good"
    return yes, "chosen without evidence, as no name says which class is good: check it"


def alike(classes: Sequence[str]) -> str:
    """A remark on classes that seem to be one, written in several ways."""
    first = {one.strip().casefold(): one for one in reversed(classes)}
    pairs = [(first[one.strip().casefold()], one) for one in classes]
    others = [f"{before!r} and {one!r}" for before, one in pairs if before != one]
    if not others:
        return ""
    said = ", ".join(others[:5])
    return f"; {said} differ in capitals or spaces alone: if they are one, correct the file"


def _names_clients(column: Column) -> bool:
    """Whether there are at least two values kept, no flag's 0 and 1, and on average two rows to
    each."""
    kept = [column.values[value] for value in column.distinct]
    is_flag = {*column.distinct} == {"0", "1"}
    return not (column.fractions or is_flag) and 2 <= len(kept) <= sum(kept) / 2


def _may_be_target(column: Column) -> bool:
    several = len(column.distinct) >= 2
    return several and (column.numeric or (not column.many and len(column.distinct) <= 100))


def spelled(concept: Concept, values: Sequence[str]) -> str | None:
    """The only value that means yes, or no; None where there is none, or several."""
    found = [value for value in values if _plain(value).casefold() in _RANKS[concept]]
    return found[0] if len(found) == 1 else None
