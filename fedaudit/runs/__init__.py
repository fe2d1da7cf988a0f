"""A run: what its rounds leave behind, wherever that is kept.

The worker and `fedaudit run` play rounds with the same trainers and hand their records to
`record_block`. The worker stores what comes of it in the database, the other keeps it in memory.
The report is made from the run and its result. No web, no database, no torch.
"""
