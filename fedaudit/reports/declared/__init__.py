"""Reports of trainings that run elsewhere: what their trainers declare, marked as that."""
