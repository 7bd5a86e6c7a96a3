-- one row per request that a server denied because it did not know the kind of a policy's params
SELECT cluster, policy, ts, message
FROM policy_denials
WHERE binding IS NULL AND starts_with(message, 'failed to configure policy: failed to find resource referenced by paramKind: ')
ORDER BY cluster, policy, ts, message
