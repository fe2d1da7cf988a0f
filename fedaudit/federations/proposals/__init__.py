"""What a table seems to hold, as a registration for a person to correct."""
