"""The form for a table's registration: what is proposed, what was typed, where faults belong."""
