"""Tests of table of federations."""
