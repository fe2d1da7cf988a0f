"""What the codes of data are called."""
