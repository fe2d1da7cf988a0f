"""What the report of a cell says of the other cells of its sweep."""
