"""What a federation looks like, in figures that hide small groups."""
