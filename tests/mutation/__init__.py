"""Mutation testing: does a test fail when a line of the code is changed?

`python -m tests.mutation fedaudit/ledger` (`make mutation MUTATE=fedaudit/ledger`); see
docs/testing.md.
"""
