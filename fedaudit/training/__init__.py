"""Algorithm 1 (Galli et al., section 4), for many experiments at once."""
