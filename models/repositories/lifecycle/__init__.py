"""What is erased, and what expires."""
