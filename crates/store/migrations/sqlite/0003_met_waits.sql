-- Streaks count a turn after a met wait as one with evidence. Nothing changes in the tables; heads are folded anew.
SELECT 1;
