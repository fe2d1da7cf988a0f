"""Wording for observers, against whom an epsilon holds; the only one for pages and reports."""

from collections.abc import Mapping

from fedaudit.privacy.accounting.privacy_events import Observer, ReportObserver

OBSERVERS: Mapping[Observer, str] = {
    "final_model": "those who see the models and not who took part",
    "server": "the server",
}
"""Follows "against": `final_model` knows only the models, `server` also who took part and when."""
REPORT_READERS: Mapping[ReportObserver, str] = {"report": "readers of the report"}
"""They see what is published of the people held out of training, and are asked about them alone: no
training is counted against them."""


def observer_words(name: str) -> str:
    """An observer in words; an unknown name is returned unchanged."""
    known = [*OBSERVERS.items(), *REPORT_READERS.items()]
    return {str(one): words for one, words in known}.get(name, name)
