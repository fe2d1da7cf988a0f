"""The names under which figures are exported, which alerts and dashboards depend on."""

from api.http.request_metrics import NAME

BUILD = "fedaudit_build_info"
DATABASE_UP = "fedaudit_database_up"
SCHEMA = "fedaudit_schema_info"
SCHEMA_MATCHES = "fedaudit_schema_matches"
UNITS = "fedaudit_units"
OLDEST_WAITING = "fedaudit_unit_oldest_waiting_seconds"
CLAIMS = "fedaudit_unit_claims"
LOST_LEASES = "fedaudit_unit_lost_leases"
EXPERIMENTS = "fedaudit_experiments"
ROUNDS = "fedaudit_rounds_recorded"
OUTBOX = "fedaudit_outbox_messages"
OUTBOX_OLDEST = "fedaudit_outbox_oldest_seconds"
ERASURE_OLDEST = "fedaudit_erasure_oldest_seconds"
SWEEPER = "fedaudit_sweeper_elected"
BUDGET_LEFT = "fedaudit_budget_remaining_ratio"
BUDGET_DECLARED = "fedaudit_budget_declared_ratio"
BUDGETS_LEFT_OUT = "fedaudit_budget_federations_left_out"
REQUESTS = NAME
