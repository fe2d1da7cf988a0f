"""A run: what its rounds leave behind, wherever that is kept.

The worker and `fedaudit run` play rounds with the same trainers and hand their records to
`record_block`. What comes of it goes into a sink: the worker's is the database, the other's is
memory. The report is made from the run and what its sink has kept. No web, no database, no torch.
"""
