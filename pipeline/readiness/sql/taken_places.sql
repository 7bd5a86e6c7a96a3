-- one row per candidate: the clusters and resources of the would-be denials that it takes out
SELECT candidate, list_sort(list(DISTINCT cluster)) AS clusters, list_sort(list(DISTINCT (api_group, resource))) AS resources
FROM taken JOIN exposed_subjects USING (subject)
WHERE outcome = 'deny'
GROUP BY ALL
