"""Running the service from the command line."""
