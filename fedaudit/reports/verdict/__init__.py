"""What somebody decides by: four parts in words, each sentence with its figures."""
