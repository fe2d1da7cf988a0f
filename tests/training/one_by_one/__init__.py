"""Tests of one by one of training."""
