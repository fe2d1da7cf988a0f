"""Rounds of one experiment whose clients have very different numbers of rows."""
