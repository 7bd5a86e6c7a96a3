"""What only the stage validating has in commands and pages."""
