"""Tests of federations of api."""
