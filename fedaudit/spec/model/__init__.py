"""Which network is trained, and which parameters it starts from."""
