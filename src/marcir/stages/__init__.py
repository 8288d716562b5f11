"""The verbs of marcir: each joins several rooms and can start from a file."""
