"""Tests of comparison of reports."""
