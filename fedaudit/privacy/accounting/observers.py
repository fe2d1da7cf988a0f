"""Observers in words, against whom an epsilon holds: the one wording of pages and reports."""

from collections.abc import Mapping

from fedaudit.privacy.accounting.privacy_events import Observer

OBSERVERS: Mapping[Observer, str] = {
    "final_model": "those who see the models and not who took part",
    "server": "the server",
}
"""Follows "against": `final_model` knows the models alone, `server` also who took part and when."""


def observer_words(name: str) -> str:
    """An observer in words; a name that is not known stands for itself."""
    return {str(known): words for known, words in OBSERVERS.items()}.get(name, name)
