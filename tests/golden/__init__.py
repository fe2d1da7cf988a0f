"""The same specs in two trees: see `__main__`."""
