"""Tests of experiments of api."""
