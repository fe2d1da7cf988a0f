"""How the service as a whole does, for those who run it: across projects, and without names."""
