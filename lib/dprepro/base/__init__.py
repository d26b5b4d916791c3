"""Argument checks, paths, hashes and the disk; nothing of differential privacy."""
