"""Tests of document of reports."""
