"""The protection of uploads in training, one file per mechanism, found by the spec's literal."""
