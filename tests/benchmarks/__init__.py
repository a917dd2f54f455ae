"""Benchmarks: ratios against floors measured side by side in one run."""
