"""Gates held against a report, and their results in several forms."""
