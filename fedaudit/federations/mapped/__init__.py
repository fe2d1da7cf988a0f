"""Clients' data laid out in files that are mapped into memory, page by page as they are needed."""
