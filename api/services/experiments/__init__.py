"""Experiments: admission, submission, lists and events."""
