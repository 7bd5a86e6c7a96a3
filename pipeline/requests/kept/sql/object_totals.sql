-- one row per object in `listed` whose digests do not cancel out: see `file_objects.sql`
SELECT object, bit_xor(digest) AS digest
FROM listed
GROUP BY object
HAVING bit_xor(digest) <> 0
ORDER BY object
