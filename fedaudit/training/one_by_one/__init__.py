"""Rounds computed one client at a time, for rows too wide to pad."""
