"""Tests of records of training."""
