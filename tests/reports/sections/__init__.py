"""Tests of sections of reports."""
