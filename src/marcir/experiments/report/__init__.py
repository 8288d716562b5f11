"""What `marcir report` is made of: groups of runs, tables, figures, and the page."""
