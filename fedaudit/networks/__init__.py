"""Models as flat parameter vectors: closed-form size, initial values, forward, gradient."""
