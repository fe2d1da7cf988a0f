"""Tests of http of api."""
