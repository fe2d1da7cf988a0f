"""Tests of groups of federations."""
