"""The form for an experiment: its fields, the spec that they come to, and where faults belong."""
