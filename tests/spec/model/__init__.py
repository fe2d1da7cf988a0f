"""Tests of fedaudit/spec/model."""
