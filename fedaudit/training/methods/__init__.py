"""The methods of `training.method`, an object each: what they do to what clients send and keep."""
