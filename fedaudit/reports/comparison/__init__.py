"""Several reports side by side."""
