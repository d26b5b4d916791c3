"""Differentially private synthesis of text: private texts in, a synthetic corpus out."""
