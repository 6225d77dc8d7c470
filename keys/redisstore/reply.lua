-- The marks and the reply of a take.
if proof == 1 and shadow == 0 and cost > 0 then
  local till = proofExpires + 1200000000 -- keys.ProofMemory
  arithmetic().mark(KEYS[iProof], spack('<dd', used + 1, till), till, now)
end
local reply = spack('<BdddddddBBBBBBBBBBc16' .. string.rep('Bd', limits), status, now, r[1], wait,
  capacity or 0, baseCount or 0, basePeriod or 0, revoked, let and 1 or 0, (taken and 1 or 0) + (repeated and 2 or 0), needed, causes, posture, k1, k2,
  device, familiar and 1 or 0, proof, id, unpack(r, results, last))
if taken and iRequest > 0 then
  -- A repeat may come under other rules: it needs the limits too.
  local full, x = {}, 0
  p = 10
  for t = 1, tiers do
    local end_ = p + 7 * r[p + 1]
    for q = p + 7, end_, 7 do
      local count = r[q + 1]
      full[x + 1], full[x + 2], full[x + 3] = r[q + 2] > 0 and r[q + 3] / r[q + 2] or 0, count < 0 and -count or count, r[q + 2]
      x = x + 3
    end
    p = end_ + 7
  end
  arithmetic().mark(KEYS[iRequest], sub(ARGV[1], -16) .. spack('<d', now + life) .. reply .. spack('<' .. string.rep('d', x), unpack(full)),
    now + life, now)
end
return reply
