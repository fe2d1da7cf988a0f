"""Records with their own budgets: plans, sampling rates, spending."""
