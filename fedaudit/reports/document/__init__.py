"""The report's shape, what it is made from, and how parts are checked."""
