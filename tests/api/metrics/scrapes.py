"""What a scrape of `/metrics` says, as Prometheus' own parser reads it."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """Every value, by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    """One value."""
    return found[name, frozenset(labels.items())]


def scrape(api: Any, **options: Any) -> Samples:
    """What the API says now, past what it keeps for some seconds."""
    api.client.app.state.state_metrics._kept = None
    response = api.get("/metrics", **options)
    assert response.status_code == 200, response.text
    return samples(response.text)
