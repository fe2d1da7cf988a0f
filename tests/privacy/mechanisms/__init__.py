"""Tests of mechanisms of privacy."""
