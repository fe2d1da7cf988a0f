"""What people did, and in whose name."""
