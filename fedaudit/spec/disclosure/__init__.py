"""What owners of data and of the service let anyone ask of groups."""
