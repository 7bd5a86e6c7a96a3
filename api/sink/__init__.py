"""The server that takes events: its connections, its processes and the files that an API server needs to reach it."""
