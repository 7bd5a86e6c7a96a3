"""When the sink asks senders to wait. The help of `serve` names these limits, so this file loads nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SinkLimits:
    """The limits above which the sink asks senders to wait. Sizes in bytes, times in seconds."""

    body_bytes_max: int = (
        64 * 1024 * 1024
    )  # 400 events of 100 KiB are 40 MB; without truncation on the API server, batches may be larger
    items_max: int = 100_000  # --audit-webhook-batch-max-size is 400 by default; this many empty items would cost only 10 MB
    requests_per_sender_max: int = 128  # an API server sends at most 15 at one time
    in_flight_bytes_max: int = 256 * 1024 * 1024  # a body costs about three times its size in memory while it is taken in
    # Compressed bytes. Above this limit the sink reports that the drain is behind, but still accepts batches: refused batches may
    # be lost, waiting ones are safe.
    backlog_bytes_max: int = 8 * 1024 * 1024 * 1024
    disk_free_bytes_min: int = 512 * 1024 * 1024  # left for the drain, which needs space to make space
    digest_seconds: float = 600.0  # an API server repeats a batch for the last time about 250 s after its first attempt
    digests_max: int = 100_000
