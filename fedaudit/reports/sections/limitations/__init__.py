"""What a report does not show, mechanism by mechanism and figure by figure."""
