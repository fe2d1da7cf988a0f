"""The audit log: what it tells, and whether it still does."""
