"""Tests of synthetic of federations."""
