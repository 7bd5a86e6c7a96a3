"""The spool: acknowledged batches on disk, and the drain that stores them in the lake."""
