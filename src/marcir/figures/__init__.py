"""Figures of labels, images and scores, as PNG, PDF or SVG files."""
