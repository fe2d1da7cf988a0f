"""Events, and the accountants that compose them into an epsilon."""
