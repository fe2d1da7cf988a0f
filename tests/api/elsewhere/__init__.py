"""People who sign in elsewhere."""
