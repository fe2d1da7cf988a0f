"""Tests of accounting of privacy."""
