"""Tests of reading of federations."""
