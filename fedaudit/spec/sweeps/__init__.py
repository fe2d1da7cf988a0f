"""Many specs as one: a base, and what varies."""
