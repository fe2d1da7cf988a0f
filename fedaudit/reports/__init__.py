"""From a finished run to a report: figures, gates, verdict and page."""
