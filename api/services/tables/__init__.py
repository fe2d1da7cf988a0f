"""Long tables of an experiment, in pages and as files."""
