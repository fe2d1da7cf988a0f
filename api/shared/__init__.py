"""What requests share: resources, callers, federations that were read."""
