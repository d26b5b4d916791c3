"""What tests a privacy claim."""
