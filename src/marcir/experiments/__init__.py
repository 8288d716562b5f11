"""Benchmarks, ablation studies and their report."""
