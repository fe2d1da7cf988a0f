"""Canaries: known inputs that take part by the fall of a coin, looked for in what is released."""
