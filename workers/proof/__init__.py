"""What a worker signs of its ledgers, and what it saw of one that it took up again."""
