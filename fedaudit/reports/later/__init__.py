"""What attacks found after a report was signed."""
