"""What was spent: entries, their binary encoding, and the hash chain over them."""
