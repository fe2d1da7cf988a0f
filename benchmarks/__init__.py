"""How fast fedaudit is, and what it makes of the published experiments."""
