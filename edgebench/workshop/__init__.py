"""What is set up once for many trials, and taken away: swap, weights, a warm runtime."""
