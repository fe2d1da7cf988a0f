"""What is published of the people held out of training, and what that costs them."""
