"""Files that people brought: parameters, and tables that nobody has registered yet."""
