"""Wording for adjacencies, between which datasets a guarantee holds; for pages and reports."""

from collections.abc import Mapping

from fedaudit.privacy.accounting.privacy_events import Adjacency

ADJACENCIES: Mapping[Adjacency, str] = {
    "add-or-remove-one": "zero-out (add-or-remove-one)",
    "replace-one": "replace-one",
}
"""The first, known as zero-out: a unit's contribution is there or is zero, while denominators and
the split, which everyone is taken to know, stay as they are. Ledger entries carry the stored name
within what is hashed, and budgets are kept by it, so it stays for both."""


def adjacency_words(name: str) -> str:
    """An adjacency in words; an unknown name is returned unchanged."""
    return {str(known): words for known, words in ADJACENCIES.items()}.get(name, name)
