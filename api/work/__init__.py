"""Work that a reader orders: replays, gates and explanations, each in a process of its own."""
