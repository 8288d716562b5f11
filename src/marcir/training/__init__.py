"""Train, resume and evaluate models."""
