"""What every way of training shares: runs, their records, data and groups."""
