"""What projects share that hold the same content, or nearly the same."""
