-- warn: events that the server cut because they were too large; their bodies are gone
SELECT cluster, api_group, resource, verb, count(*) AS events
FROM events
WHERE list_contains(flags, 'truncated')
GROUP BY ALL
