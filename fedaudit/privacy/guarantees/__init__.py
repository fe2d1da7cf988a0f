"""What a mechanism guarantees, in statements that never claim too much."""
