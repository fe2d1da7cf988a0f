"""The hottest loops in C, with the bits of the torch and numpy code that they stand in for, but for
convolutions."""
