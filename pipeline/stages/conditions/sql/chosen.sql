-- one row per write whose objects decide, with the number of its question
SELECT conditions_asked.*, number
FROM conditions_asked JOIN conditions_questions USING (question) JOIN conditions_written USING (number)
