"""Images and handwriting, from NumPy archives and from LEAF's format."""
