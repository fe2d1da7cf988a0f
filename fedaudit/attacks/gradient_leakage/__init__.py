"""Gradient leakage: a server that reconstructs clients' images from their noised updates."""
