"""The commands below `publish`: reports in other tools."""
