"""What many runs say together: what they cost, and which of them is better, and how surely."""
