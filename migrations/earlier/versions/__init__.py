"""One module a revision, in the order of their numbers."""
