"""Tests of charts of reports."""
