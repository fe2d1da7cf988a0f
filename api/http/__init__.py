"""Requests and answers: bodies, problems, cursors, negotiation, middleware."""
