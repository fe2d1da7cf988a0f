"""Tests of dossiers of reports."""
