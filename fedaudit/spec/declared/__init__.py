"""What trainings that run elsewhere declare: the terms of a ledger, and its rounds."""
