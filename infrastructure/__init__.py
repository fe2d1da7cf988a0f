"""What api and workers both lean on: settings, the queue, file storage and logs."""
