"""The protection of uploads in training, found by the spec's literal."""
