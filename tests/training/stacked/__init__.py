"""Tests of stacked of training."""
