"""Argument checks, paths, hashes, the disk, processes and saved results; nothing of differential privacy."""
