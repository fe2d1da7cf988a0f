"""What a page shows of an experiment while it runs, and once it has ended."""
