"""The HTTP service: search an archive from a browser or a script. The work itself is in stages."""
