"""Privacy and fairness audits of federated learning."""

from importlib.metadata import version

__version__ = version("fedaudit")
