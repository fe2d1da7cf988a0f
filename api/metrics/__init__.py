"""What Prometheus reads of the service: its state, and this process's requests."""
