"""Prompt perturbation: each token of a text is replaced by a random one before a service reads it."""
