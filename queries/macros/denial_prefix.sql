-- regular expression (RE2) of what kube-apiserver writes before the text of a denial: `RESOURCE.GROUP "NAME" is forbidden: `
CREATE MACRO denial_prefix() AS '^(?:[^ "]+ (?:"(?:[^"\\]|\\.)*" )?is )?forbidden: '
