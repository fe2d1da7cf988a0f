"""Any table with features and a target, as a federation."""
