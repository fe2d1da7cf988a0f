"""Wording for observers, against whom an epsilon holds; the only one for pages and reports."""

from collections.abc import Mapping

from fedaudit.privacy.accounting.privacy_events import Observer, ReportObserver

OBSERVERS: Mapping[Observer | ReportObserver, str] = {
    "final_model": "those who see the models and not who took part",
    "server": "the server",
    "report": "readers of the report",
}
"""Follows "against": `final_model` knows only the models, `server` also who took part and when.
`report` sees what is published of the people held out of training, and is asked about them alone:
no training is counted against it."""


def observer_words(name: str) -> str:
    """An observer in words; an unknown name is returned unchanged."""
    return {str(known): words for known, words in OBSERVERS.items()}.get(name, name)
