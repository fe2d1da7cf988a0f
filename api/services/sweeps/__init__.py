"""Sweeps: many experiments, admitted and looked at as one."""
