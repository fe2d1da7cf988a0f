"""How requests are made, sent, repeated and answered, whatever they are about."""
