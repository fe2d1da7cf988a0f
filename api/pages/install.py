"""The pages of the application: their routes, their files, and their errors."""

from types import ModuleType

from fastapi import FastAPI

from api.pages import docs, error_pages
from api.pages.assets import Assets
from api.pages.attempts import FailedAttempts
from api.pages.routers import (
    artifacts,
    audits,
    compare,
    erasures,
    experiment,
    experiments,
    federations,
    ledgers,
    new_audit,
    new_experiment,
    new_federation,
    report_files,
    report_lists,
    reports,
    run_attacks,
    sign_in,
    sweeps,
    webhooks,
)

MODULES: tuple[ModuleType, ...] = (
    sign_in,
    experiments,
    new_experiment,
    experiment,
    run_attacks,
    report_files,
    report_lists,
    reports,
    compare,
    new_audit,
    audits,
    ledgers,
    sweeps,
    artifacts,
    new_federation,
    federations,
    erasures,
    webhooks,
)
"""The more special path first: `/experiments/new` before `/experiments/{experiment_id}`."""


def install(app: FastAPI) -> None:
    """What the pages need beside their routes. Called behind `problems.install`, whose answers
    they show."""
    app.state.failed_sign_ins = FailedAttempts()
    app.mount("/assets", Assets(), name="assets")
    docs.install(app)
    error_pages.install(
        app, [route.endpoint for module in MODULES for route in module.router.routes]
    )
