"""Report formats: a report in a form that its recipient requires, made from the stored document."""
