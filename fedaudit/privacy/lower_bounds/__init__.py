"""Lower bounds on the privacy loss of a mechanism, from scores of canaries. No torch."""
