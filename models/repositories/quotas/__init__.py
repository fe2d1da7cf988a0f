"""What projects use of the service."""
