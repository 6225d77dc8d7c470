-- keys.LeaseAsk.grant.
local q = 17 -- the limit
local whole = (r[results + 1] - r[results + 1] % r[q + 2]) / r[q + 2]
local granted = want < whole and want or whole
if granted < need then granted = 0 end
if granted > 0 then r[results + 1], r[12] = r[results + 1] - granted * r[q + 2], 1 end
local heal = granted == 0
