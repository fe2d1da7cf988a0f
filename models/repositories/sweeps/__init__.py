"""Many runs at a time: units that are claimed together, and sweeps."""
