"""Tests of readings of reports."""
