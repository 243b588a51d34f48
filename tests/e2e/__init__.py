"""The demo and the product, as a user runs them."""
