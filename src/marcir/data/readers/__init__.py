"""Readers of archives: one file per dataset."""
