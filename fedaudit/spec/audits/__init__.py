"""What an audit of predictions may be asked for."""
