"""How good a model is beside a prediction that looks at nothing."""
