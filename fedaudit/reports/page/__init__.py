"""The report as a page and on paper."""
