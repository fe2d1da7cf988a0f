"""Tests of metric of privacy."""
