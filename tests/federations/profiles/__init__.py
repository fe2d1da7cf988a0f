"""Tests of profiles of federations."""
