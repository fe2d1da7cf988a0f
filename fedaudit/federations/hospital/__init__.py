"""Inpatient charges of the Centers for Medicare and Medicaid Services."""
