-- one row per distinct question of the table `conditions_asked`, in an order that depends on nothing else: its number and its requests
CREATE OR REPLACE TEMP TABLE conditions_questions AS
SELECT row_number() OVER (ORDER BY question) AS number, question, count(*) AS requests
FROM conditions_asked
GROUP BY question
