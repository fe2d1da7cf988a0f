"""Tests of base of training."""
