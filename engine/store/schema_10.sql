-- What the tenth version of the schema adds: nothing that is true, only views of what counts, for
-- whoever opens the store with another program. Times are written out in UTC.

-- Each conversation in the playing that counts: the newest that was played to its end.
CREATE VIEW conversations AS
SELECT
    t.benchmark AS benchmark,
    t.scenario_id || '__' || t.target || CASE WHEN t.sample THEN '__s' || t.sample ELSE '' END
        AS conversation,
    t.target AS target,
    t.model AS model,
    s.metric_id AS metric,
    t.scenario_id AS scenario,
    -- without the number of its variant
    CASE
        WHEN t.scenario_id <> rtrim(t.scenario_id, '0123456789')
            AND rtrim(t.scenario_id, '0123456789') LIKE '%\_v' ESCAPE '\'
        THEN substr(t.scenario_id, 1, length(rtrim(t.scenario_id, '0123456789')) - 2)
        ELSE t.scenario_id
    END AS base_scenario,
    s.demographic AS person,
    t.sample AS sample,
    (SELECT count(*) FROM message m WHERE m.take = t.seq AND m.speaker = 'assistant') AS turns,
    e.stop_reason AS ended,
    t.user_model AS user_model,
    t.scripted AS scripted,
    strftime('%Y-%m-%dT%H:%M:%SZ', t.at / 1000, 'unixepoch') AS began_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', e.at / 1000, 'unixepoch') AS ended_at,
    t.seq AS take
FROM take t
JOIN take_end e ON e.take = t.seq AND e.finished = 1
LEFT JOIN scenario s ON s.seq = t.scenario
WHERE NOT EXISTS (
    SELECT 1 FROM take n JOIN take_end f ON f.take = n.seq AND f.finished = 1
    WHERE n.benchmark = t.benchmark AND n.scenario_id = t.scenario_id
        AND n.target = t.target AND n.sample = t.sample AND n.number > t.number
);

-- What was said in them, a message a row.
CREATE VIEW transcripts AS
SELECT
    c.benchmark AS benchmark,
    c.conversation AS conversation,
    m.turn AS turn,
    m.speaker AS speaker,
    m.text AS text,
    m.landmark AS landmark,
    m.thought AS thought,
    strftime('%Y-%m-%dT%H:%M:%SZ', m.at / 1000, 'unixepoch') AS said_at,
    c.take AS take
FROM conversations c
JOIN message m ON m.take = c.take;

-- What counts for each that was judged, in the words of the newest judge who says so.
CREATE VIEW verdicts_that_count AS
SELECT
    c.benchmark AS benchmark,
    c.conversation AS conversation,
    c.target AS target,
    v.metric_id AS metric,
    v.track AS track,
    CASE v.counted WHEN 1 THEN 'pass' WHEN 0 THEN 'fail' ELSE 'unscored' END AS outcome,
    v.counted AS passed,
    w.judge AS judge,
    w.justification AS justification,
    w.quotes AS quotes,
    (SELECT count(DISTINCT judge) FROM verdict WHERE take = c.take) AS judges,
    strftime('%Y-%m-%dT%H:%M:%SZ', w.at / 1000, 'unixepoch') AS judged_at,
    c.take AS take
FROM conversations c
JOIN verdict v ON v.seq = (SELECT max(seq) FROM verdict WHERE take = c.take)
JOIN verdict w ON w.seq = coalesce(
    (
        SELECT seq FROM verdict WHERE take = c.take AND passed IS v.counted
        ORDER BY source = 'human', seq DESC LIMIT 1
    ),
    v.seq
);

-- Passes among what was scored, by target and metric.
CREATE VIEW pass_rates AS
SELECT
    benchmark,
    target,
    track,
    metric,
    sum(passed) AS passed,
    count(passed) AS scored,
    count(*) - count(passed) AS unscored,
    avg(passed) AS pass_rate
FROM verdicts_that_count
GROUP BY benchmark, target, track, metric;
