"""What only the stage mutating has in commands and pages."""
