"""The exact tier: evaluation as cel-go's interpreter does it, with unknown values."""
