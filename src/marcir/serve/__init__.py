"""The HTTP service: search an archive from a browser or a script."""
