"""Tests of page of reports."""
