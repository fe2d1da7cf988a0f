"""What a report says of attacks: a file for each kind."""
