"""The generated archive of the demo: scenes with several labels."""
