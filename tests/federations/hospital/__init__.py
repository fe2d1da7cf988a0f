"""Tests of hospital of federations."""
