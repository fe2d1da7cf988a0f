"""Files as streams: archives, CSV, Parquet and NumPy; text and numbers by row."""
