"""The verdict: four parts in words, each sentence with its figures."""
