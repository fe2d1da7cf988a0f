"""What the sweeper removes: the rest of erasures, and files whose time is over."""
