"""What makes a privacy claim."""
