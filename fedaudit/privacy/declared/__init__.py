"""What declared rounds cost: the accountants of runs, over histories that mix events."""
