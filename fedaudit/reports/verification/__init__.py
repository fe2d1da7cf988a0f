"""A report held against its ledger, everything computed anew."""
