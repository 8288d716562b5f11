"""Pictures of labels, images and scores, as PNG files."""
