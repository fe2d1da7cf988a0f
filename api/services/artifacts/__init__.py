"""Files of parameters that a project brings."""
