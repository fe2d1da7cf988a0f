"""Experiments held against gates, and the policies that name them."""
