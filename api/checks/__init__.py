"""The findings of `hindcast doctor`, and the evidence that an audit policy records or withholds."""
