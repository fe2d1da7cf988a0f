"""Where events are sent, and what was sent there."""
