"""Commands on ledgers of trainings that run elsewhere."""
