"""The published experiments, run again."""
