"""Gates evaluated against a report, and their results in several formats."""
