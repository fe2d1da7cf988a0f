"""Commands on the experiments of a running service: list, show, cancel, retry."""
