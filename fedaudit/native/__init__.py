"""The hottest loops in C, with the same bits as the torch and numpy code that they stand in for, but
for convolutions."""
