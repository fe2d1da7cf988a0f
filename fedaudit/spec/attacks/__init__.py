"""What may be asked of an attack: a file for each kind."""
