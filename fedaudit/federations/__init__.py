"""Clients' data: one module per source, all giving a Federation of padded arrays."""
