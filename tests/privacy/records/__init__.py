"""Tests of records of privacy."""
