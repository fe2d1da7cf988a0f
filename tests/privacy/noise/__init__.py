"""Tests of noise of privacy."""
