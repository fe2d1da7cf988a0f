"""Records with budgets of their own: plans, sampling rates, spending."""
