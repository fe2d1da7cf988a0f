"""The addresses of the service's pages for people."""

from fedaudit_client.http.request import path_part


def experiment_page(url: str, experiment_id: str) -> str:
    """How an experiment runs, or ran."""
    return f"{url}/experiments/{path_part(experiment_id)}"


def report_page(url: str, experiment_id: str) -> str:
    """The report of an experiment that succeeded."""
    return f"{experiment_page(url, experiment_id)}/report"


def sweep_page(url: str, sweep_id: str) -> str:
    """How a sweep runs, and its table."""
    return f"{url}/sweeps/{path_part(sweep_id)}"
