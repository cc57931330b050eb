"""What students handed in, read without trust: whose it is, what is in it, and what counts."""
