"""The processes that run experiments, and the sweeper that supervises them."""
