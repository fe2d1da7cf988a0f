"""Stored reports: pages, lists, comparison, verification, bundles."""
