"""Audit reports in the tools that a team already runs: MLflow, Weights & Biases, OpenLineage."""
