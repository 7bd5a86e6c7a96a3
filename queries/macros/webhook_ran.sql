-- whether policies had been evaluated when a webhook refused a request, with the reason, as admission_writes words it
-- annotations: of the event
-- message: status message that names the webhook
--
-- A mutating webhook leaves its name in a mutation annotation also when it refuses or fails
-- (kubernetes/apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go); a validating one leaves none.
CREATE MACRO webhook_ran(annotations, message) AS CASE
    WHEN len(list_filter(
        map_entries(annotations),
        lambda annotation: CASE -- AND would parse every value, and most are no JSON
            WHEN starts_with(annotation.key, 'mutation.webhook.admission.k8s.io/')
            THEN contains(message, ' webhook "' || json_extract_string(annotation.value, '$.webhook') || '"')
            ELSE false
        END
    )) > 0 THEN 'no: a mutating webhook refused it'
    ELSE 'yes: validating webhooks are called afterwards'
END
