-- Charge: what an instance let through alone. KEYS are the marks that the header
-- points at and then the buckets, one a tier. ARGV: 1 header, 2 rules, 3 format
-- of the rules, 4 '<d' per limit, the tokens owed. The reply is the time and
-- whether it was counted now.

local now, deadline, iState, iK1, iK2, iMark, first = sunpack('<ddBBBBB', ARGV[1])

if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local v = call('MGET', unpack(KEYS)) -- v[0], nil, stands for marks that do not apply
if v[iMark] then return spack('<BdB', 0, now, 0) end
arithmetic().mark(KEYS[iMark], '1', now + 3600000000, now) -- keys.ChargeMemory
