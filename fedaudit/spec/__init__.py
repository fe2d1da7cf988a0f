"""What may be asked for: the experiment spec, version 1."""
