"""Decoders of image files: Pillow and imagecodecs for JPEG, PNG and WebP, tifffile for TIFF."""
