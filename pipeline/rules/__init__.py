"""Which rules were in force. Knows no stage."""
