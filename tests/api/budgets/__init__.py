"""Tests of budgets of api."""
