-- 0042 held: another branch has this number. Its migration takes the place of this file.
select 1;

-- down
select 1;
