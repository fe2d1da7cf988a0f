"""What experiments take from the registration of the federation that they name."""
