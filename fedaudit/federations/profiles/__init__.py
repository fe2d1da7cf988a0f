"""Summary figures of a federation, with small groups suppressed."""
