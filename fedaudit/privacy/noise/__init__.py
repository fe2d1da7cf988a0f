"""Noise, and clipping that bounds what it must hide: Laplace, Gaussian, clipping."""
