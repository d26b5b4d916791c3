"""Argument checks, paths, hashes, the disk, processes, tables and saved results; nothing of differential privacy."""
