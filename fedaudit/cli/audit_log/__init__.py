"""The audit log, from the command line."""
