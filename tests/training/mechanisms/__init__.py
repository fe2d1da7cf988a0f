"""Tests of mechanisms of training."""
