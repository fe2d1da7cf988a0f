"""Tests of verification of reports."""
