"""Gradient leakage: images of clients, reconstructed from their updates."""
