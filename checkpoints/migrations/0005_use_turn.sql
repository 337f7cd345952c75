-- What was decided for one turn is asked for by operators (inspect, console);
-- the trail is the longest table of all.
CREATE INDEX use_turn ON use (turn, at, seq);
