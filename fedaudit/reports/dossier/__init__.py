"""The dossier of one report: what an output checker of a research environment decides by."""
