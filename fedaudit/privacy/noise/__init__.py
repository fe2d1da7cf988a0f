"""Noise and what bounds it: Laplace, Gaussian, clipping."""
