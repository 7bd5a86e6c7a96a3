-- `still_denied`: the requests that a replay with exemptions would deny each thing; see still_denied_of
CREATE OR REPLACE TEMP TABLE still_denied (thing VARCHAR, cluster VARCHAR, audit_id VARCHAR, ts TIMESTAMPTZ)
