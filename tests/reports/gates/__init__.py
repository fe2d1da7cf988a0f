"""Tests of gates of reports."""
