"""Differentially private in-context learning: clean partition outputs in, a private release out."""
