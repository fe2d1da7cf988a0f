"""What services share: lookups, idempotency, the dispatch of units."""
