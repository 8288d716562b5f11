"""The same jobs on many machines, with Ray (extra `[cluster]`)."""
