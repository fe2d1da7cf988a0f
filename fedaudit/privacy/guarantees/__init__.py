"""What a mechanism guarantees, worded so that it never claims too much."""
