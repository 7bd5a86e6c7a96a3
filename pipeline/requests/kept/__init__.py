"""What Hindcast derives from the events of a lake once, and keeps under `LAKE/derived`, because no policy decides it.

Everything here can be made again from the lake. A kept file that is missing, damaged, or made by other code is made again.
"""
