"""The processes that run experiments, and the sweeper that watches over them."""
