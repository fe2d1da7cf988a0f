"""Makes a report of a finished run: figures, gates, verdict and page."""
