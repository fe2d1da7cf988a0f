"""What was erased, and what has expired."""
