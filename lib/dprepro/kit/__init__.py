"""Printed numbers and their verdicts, the batch, figures and the command line."""
