"""A report in the form that its reader has to fill: made from the stored document alone."""
