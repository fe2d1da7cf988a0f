"""What protects what leaves a client, one file a mechanism, found by the spec's literal."""
