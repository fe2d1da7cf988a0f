"""What attacks found, and files of theirs."""
