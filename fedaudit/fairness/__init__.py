"""Counts per group, gaps between groups, and how sure they are."""
