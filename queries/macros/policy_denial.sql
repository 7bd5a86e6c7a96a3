-- what the text of a policy's denial names: a struct of policy, binding and message, each empty where it is missing
-- status_message: the whole text in the client's answer
CREATE MACRO policy_denial(status_message) AS regexp_extract(
    status_message,
    denial_prefix() || 'ValidatingAdmissionPolicy ''([^'']*)''(?: with binding ''([^'']*)'')? denied request: (.*)$',
    ['policy', 'binding', 'message'], 's'
)
