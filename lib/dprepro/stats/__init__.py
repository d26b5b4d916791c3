"""The mathematics, on arrays and floats alone."""
