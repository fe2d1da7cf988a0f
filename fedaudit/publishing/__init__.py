"""Audit reports in the tool that a team already runs: MLflow."""
