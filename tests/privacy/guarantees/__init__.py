"""Tests of guarantees of privacy."""
