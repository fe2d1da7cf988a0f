"""Tests of reports of api."""
