"""Tests of tables of api."""
