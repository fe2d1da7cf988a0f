"""Federated averaging in other people's simulators, beside the engine and the plain loop."""
