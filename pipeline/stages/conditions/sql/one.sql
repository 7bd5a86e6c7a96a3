-- leaves one request in the table `conditions_asked`
DELETE FROM conditions_asked WHERE cluster <> $cluster OR audit_id <> $audit_id
