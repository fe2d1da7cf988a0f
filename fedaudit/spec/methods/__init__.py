"""How a model is trained for clients who differ: the methods of `training.method`."""
